"""A tiny task and rows to work on: everything else is the real thing."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from app.core.settings import Settings
from app.db.config import RunConfig
from app.db.models import Embedding, EmbeddingFile, Experiment, Run, StoredFile
from app.db.session import Sessions, create_sessions
from app.storage import open_storage
from isoscope.files.upload_formats import detect
from tests.factories import OPTIONS, SHARED, dataset_row
from tests.tiny import make_table


@pytest.fixture
def settings(tmp_path: Path, models_dir: Path, database: dict[str, str]) -> Settings:
    settings = Settings(data_dir=tmp_path / "data", models_dir=models_dir, sample=False, **database)
    settings.create_folders()
    return settings


@pytest.fixture
def sessions(migrated: Settings) -> Iterator[Sessions]:
    sessions = create_sessions(migrated.database)
    yield sessions
    sessions.kw["bind"].dispose()


@pytest.fixture
def store(settings: Settings, sessions: Sessions) -> Callable[[bytes], str]:
    def store(content: bytes) -> str:
        stored = open_storage(settings).write(io.BytesIO(content), 2**30)
        with sessions.begin() as session:
            session.merge(StoredFile(sha256=stored.sha256, size_bytes=stored.size_bytes))
        return stored.sha256

    return store


@pytest.fixture
def dataset_id(store: Callable[[bytes], str], sessions: Sessions) -> str:
    dataset = dataset_row(
        "tiny", n_train=None, n_validation=None, train_sha256=store(make_table(60, 1)),
        validation_sha256=store(make_table(40, 2)), train_filename="train.tsv", validation_filename="validation.tsv",
    )  # fmt: skip
    with sessions.begin() as session:
        session.add(dataset)
    return dataset.id


@pytest.fixture
def make_run(sessions: Sessions, dataset_id: str) -> Callable[..., str]:
    """Write the rows of a run of the tiny task; keywords change its configuration. Returns its id."""

    def make_run(**changes: object) -> str:
        small = {"epochs": 2, "batch_size": 16, "learning_rate": 1e-3}
        config = RunConfig.model_validate(
            {**OPTIONS, "regularizer": "istar", "lam": 1.0, "seed": 0, **small, **changes}
        )
        with sessions.begin() as session:
            experiment = Experiment(name="sweep", dataset_id=dataset_id, config=SHARED)
            run = Run(
                position=0, config=config.model_dump(mode="json"), regularizer=config.regularizer, lam=config.lam,
                zeta=config.zeta, seed=config.seed,
            )  # fmt: skip
            experiment.runs.append(run)
            session.add(experiment)
        return run.id

    return make_run


@pytest.fixture
def get_run(sessions: Sessions) -> Callable[[str], Run]:
    def get_run(run_id: str) -> Run:
        with sessions() as session:
            run = session.get_one(Run, run_id)
            assert isinstance(run.steps, list)
            return run

    return get_run


@pytest.fixture
def make_embedding(settings: Settings, sessions: Sessions, store: Callable[[bytes], str]) -> Callable[..., str]:
    def make_embedding(x: np.ndarray, **columns: object) -> str:
        buffer = io.BytesIO()
        np.save(buffer, x)
        sha256 = store(buffer.getvalue())
        kind = detect(open_storage(settings).local(sha256), "x.npy")
        files = [EmbeddingFile(position=0, filename="x.npy", file_sha256=sha256)]
        embedding = Embedding(name="x", filename="x.npy", files=files, format=kind.name, **columns)
        with sessions.begin() as session:
            session.add(embedding)
        return embedding.id

    return make_embedding


@pytest.fixture
def often(settings, monkeypatch):
    monkeypatch.setattr("workers.training.checkpoints.SAVINGS_APART", 0)
    return settings.model_copy(update={"checkpoint_seconds": 1e-9})
