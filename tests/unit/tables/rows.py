"""Runs of several experiments, as a search returns them, never stored."""

from app.db.models import Dataset, DatasetOrigin, Experiment
from tests.factories import SHARED
from tests.unit.figures.rows import run

_datasets: dict[str, Dataset] = {}


def dataset(name):
    return _datasets.setdefault(name, Dataset(id=f"d-{name}", name=name, origin=DatasetOrigin.UPLOAD, columns=[]))


def experiment(name, *runs, on="CoLA", row_id=None):
    whole = Experiment(id=row_id or f"e-{name}", name=name, dataset=dataset(on), config=SHARED, grid={})
    whole.dataset_id = whole.dataset.id
    for one in runs:
        one.experiment, one.experiment_id = whole, whole.id
    return list(runs)


__all__ = ["dataset", "experiment", "run"]
