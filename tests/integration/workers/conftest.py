import io
import shutil
from contextlib import contextmanager

import numpy as np
import pyarrow.parquet as pq
import pytest

from app.db.config import RunConfig
from app.db.models import Dataset, Embedding, EmbeddingFile, Experiment, Run, RunStatus, StoredFile
from app.db.session import create_sessions
from app.db.types import utcnow
from app.storage import open_storage
from isoscope.files.upload_formats import detect
from tests.factories import OPTIONS, SHARED, dataset_row
from tests.tiny import make_table
from workers.training.job import fine_tune
from workers.training.metrics import MetricsCallback

# Four steps an epoch, so the third is cut short; the falling rate tests that the schedule resumes.
CONFIG = {"epochs": None, "max_steps": 10, "schedule": "linear"}


class KilledError(BaseException):
    """Ends a job like a kill: no handler catches it."""


def watch_steps(monkeypatch, kill_after=None):
    """Return a growing list of trained steps; kill the job in the step after ``kill_after``."""
    trained, method = [], MetricsCallback.on_step_end

    def on_step_end(self, args, state, control, **_):
        trained.append(state.global_step)
        if kill_after is not None and state.global_step > kill_after:
            raise KilledError
        return method(self, args, state, control)

    monkeypatch.setattr(MetricsCallback, "on_step_end", on_step_end)
    return trained


def stop_after(monkeypatch, sessions, run_id, step, state):
    """Set the status of a run while it is in the step after ``step``."""
    method = MetricsCallback.on_step_end

    def on_step_end(self, args, training, control, **_):
        if training.global_step > step:
            with sessions.begin() as session:
                run = session.get_one(Run, run_id)
                run.status, run.finished_at = state, utcnow()
        return method(self, args, training, control)

    monkeypatch.setattr(MetricsCallback, "on_step_end", on_step_end)


def queue_again(sessions, run_id):
    with sessions.begin() as session:
        run = session.get_one(Run, run_id)
        run.status, run.worker = RunStatus.QUEUED, None


def outcome(run):
    steps = [(step.step, step.task_loss, step.penalty, step.layers) for step in run.steps]
    return run.status, run.error, run.performance, run.isoscore_star, run.results, steps


@pytest.fixture
def settings(settings, models_dir):
    settings.create_folders()
    return settings


@pytest.fixture
def sessions(migrated):
    sessions = create_sessions(migrated.database)
    yield sessions
    sessions.kw["bind"].dispose()


@pytest.fixture
def store(settings, sessions):
    def store(content):
        stored = open_storage(settings).write(io.BytesIO(content), 2**30)
        with sessions.begin() as session:
            session.merge(StoredFile(sha256=stored.sha256, size_bytes=stored.size_bytes))
        return stored.sha256

    return store


@pytest.fixture
def dataset_id(store, sessions):
    dataset = dataset_row(
        "tiny", n_train=None, n_validation=None, train_sha256=store(make_table(60, 1)),
        validation_sha256=store(make_table(40, 2)), train_filename="train.tsv", validation_filename="validation.tsv",
    )  # fmt: skip
    with sessions.begin() as session:
        session.add(dataset)
    return dataset.id


@pytest.fixture
def make_run(sessions, dataset_id):
    """Add a run of the tiny task; keywords change its configuration. Returns its id."""

    def make_run(**changes):
        small = {"epochs": 2, "batch_size": 16, "learning_rate": 1e-3, "regularizer": "istar", "lam": 1.0, "seed": 0}
        config = RunConfig.model_validate(OPTIONS | small | changes)
        copied = {name: getattr(config, name) for name in ("regularizer", "lam", "zeta", "seed")}
        with sessions.begin() as session:
            experiment = Experiment(name="sweep", dataset_id=dataset_id, config=SHARED)
            run = Run(position=0, config=config.model_dump(mode="json"), **copied)
            experiment.runs.append(run)
            session.add(experiment)
        return run.id

    return make_run


@pytest.fixture
def get_row(sessions):
    def get_row(table, row_id):
        with sessions() as session:
            return session.get(table, row_id)

    return get_row


@pytest.fixture
def get_run(sessions):
    def get_run(run_id):
        with sessions() as session:
            run = session.get_one(Run, run_id)
            assert isinstance(run.steps, list)
            return run

    return get_run


@pytest.fixture
def make_embedding(settings, sessions, store):
    def make_embedding(x, **columns):
        buffer = io.BytesIO()
        np.save(buffer, x)
        sha256 = store(buffer.getvalue())
        kind = detect(open_storage(settings).local_path(sha256), "x.npy")
        files = [EmbeddingFile(position=0, filename="x.npy", file_sha256=sha256)]
        embedding = Embedding(name="x", filename="x.npy", files=files, format=kind.name, **columns)
        with sessions.begin() as session:
            session.add(embedding)
        return embedding.id

    return make_embedding


@pytest.fixture
def frequent_settings(settings, monkeypatch):
    monkeypatch.setattr("workers.training.checkpoints.MIN_TRAINING_PER_SAVING", 0)
    return settings.model_copy(update={"checkpoint_seconds": 1e-9})


@pytest.fixture
def killed_after(monkeypatch):
    """Kill the job in the step after ``step``; yields the trained steps."""

    @contextmanager
    def killed_after(step):
        with monkeypatch.context() as patch, pytest.raises(KilledError):
            yield watch_steps(patch, step)

    return killed_after


@pytest.fixture
def kill(frequent_settings, make_run, killed_after):
    """Train a run with a checkpoint after every step and kill it after ``step``; returns its id."""

    def kill(step, changes=CONFIG):
        run_id = make_run(**changes)
        with killed_after(step):
            fine_tune(run_id, frequent_settings, "cpu")
        return run_id

    return kill


@pytest.fixture
def resume(settings, get_run):

    def resume(run_id):
        fine_tune(run_id, settings, "cpu")
        return get_run(run_id)

    return resume


@pytest.fixture
def train(settings, make_run, get_run):
    def train(**changes):
        fine_tune(run_id := make_run(**changes), settings, "cpu")
        run = get_run(run_id)
        assert (run.status, run.error) == (RunStatus.FINISHED, None), run.log
        return run

    return train


@pytest.fixture
def uninterrupted(module_cache, train):
    """Train a run without interruption, once per module."""

    def uninterrupted(config=CONFIG):
        if (key := str(config)) not in module_cache:
            module_cache[key] = train(**config)
        return module_cache[key]

    return uninterrupted


@pytest.fixture
def use_rows(sessions, dataset_id, store):
    """Give the tiny data set the rows of a table; the first ``n_train`` train."""

    def use_rows(table, n_train=40):
        with sessions.begin() as session:
            dataset = session.get_one(Dataset, dataset_id)
            for split, rows in (("train", table[:n_train]), ("validation", table[n_train:])):
                buffer = io.BytesIO()
                pq.write_table(rows, buffer)
                setattr(dataset, f"{split}_sha256", store(buffer.getvalue()))
                setattr(dataset, f"{split}_filename", f"{split}.parquet")
        return table[n_train:].to_pylist()

    return use_rows


@pytest.fixture
def copy_model(models_dir):
    folders = []

    def copy_model(name, source="tiny-bert"):
        folders.append(models_dir / name)
        shutil.copytree(models_dir / source, folders[-1])
        return folders[-1]

    yield copy_model
    for folder in folders:
        shutil.rmtree(folder)
