"""Experiments whose runs are read together."""

import pytest

from app.db.config import TrainingConfig
from app.db.models import Dataset, DatasetOrigin, Experiment
from tests.across import OPTIONS, made


@pytest.fixture
def launch(context):
    """Write an experiment of runs on a data set, and say its id."""
    datasets = {}

    def write(name, *runs, on="CoLA", **options):
        config = TrainingConfig(**OPTIONS | options).model_dump(mode="json")
        with context.sessions.begin() as session:
            if on not in datasets:
                datasets[on] = Dataset(name=on, origin=DatasetOrigin.UPLOAD, n_train=9, n_validation=9, columns=[])
            for place, run in enumerate(runs):
                run.position = place
            one = Experiment(name=name, dataset=datasets[on], config=config, grid={}, runs=list(runs))
            session.add(one)
            session.flush()
            return one.id

    return write


@pytest.fixture
def two(launch):
    """Two models on one task, three seeds of two λ each."""
    coordinates = [(lam, seed) for lam in (0.0, 1.0) for seed in range(3)]
    return [
        launch(name, *(made(lam, seed, mean + lam / 10 + seed / 100, model=model) for lam, seed in coordinates))
        for name, model, mean in (("<first>", "bert_base", 0.5), ("second", "roberta", 0.6))
    ]
