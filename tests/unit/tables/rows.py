from app.db.models import Dataset, DatasetOrigin, Experiment
from tests.factories import SHARED
from tests.unit.figures.rows import run

_datasets: dict[str, Dataset] = {}


def dataset(name):
    return _datasets.setdefault(name, Dataset(id=f"d-{name}", name=name, origin=DatasetOrigin.UPLOAD, columns=[]))


def experiment(name, *runs, on="CoLA", row_id=None):
    experiment_row = Experiment(id=row_id or f"e-{name}", name=name, dataset=dataset(on), config=SHARED, grid={})
    experiment_row.dataset_id = experiment_row.dataset.id
    for row in runs:
        row.experiment, row.experiment_id = experiment_row, experiment_row.id
    return list(runs)


__all__ = ["dataset", "experiment", "run"]
