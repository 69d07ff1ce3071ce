"""A data set and a sweep that a dry run is asked of."""

import pytest

from app.core.settings import Settings
from app.db.models import DryRun, ResultStatus
from tests.tiny import upload_once
from workers.training.dry_run import dry_run


@pytest.fixture
def settings(tmp_path, database, models_dir):
    return Settings(data_dir=tmp_path / "data", sample=False, models_dir=models_dir, **database)


@pytest.fixture
def dataset(client, context, trained_once):
    return client.get(f"/api/datasets/{upload_once(client, context, trained_once, 60, 40)}").json()


@pytest.fixture
def sweep(dataset):
    return {
        "model": "tiny-bert",
        "dataset_id": dataset["id"],
        "text_columns": ["sentence"],
        "label_column": "label",
        "regularizers": ["istar", "cosreg"],
        "lambdas": [-1, 1],
        "seeds": [0, 1],
        "epochs": 2,
        "batch_size": 8,
    }


@pytest.fixture(scope="module")
def rehearsed_once():
    """What one dry run came to that was really tried."""
    return {}


@pytest.fixture
def make_ready(context, settings, rehearsed_once):
    """Have every dry run that waits be ready, for tests of how it is asked for: one was tried, the others repeat it."""

    def make_ready():
        with context.sessions() as session:
            waiting = session.query(DryRun).filter_by(status=ResultStatus.QUEUED).all()
        if not rehearsed_once:
            dry_run(waiting[0].id, settings, "cpu")
        with context.sessions.begin() as session:
            if not rehearsed_once:
                rehearsed_once.update(session.get_one(DryRun, waiting[0].id).results.model_dump())
            for one in waiting:
                kinds = rehearsed_once["kinds"][:1] * len(one.configs)
                row = session.get_one(DryRun, one.id)
                row.status, row.results = ResultStatus.READY, rehearsed_once | {"kinds": kinds}

    return make_ready
