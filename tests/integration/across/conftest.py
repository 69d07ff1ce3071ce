import pytest

from tests.across import ended
from tests.factories import dataset_row, experiment_row


@pytest.fixture
def launch(context):
    datasets = {}

    def write(name, *runs, on="CoLA", **options):
        with context.sessions.begin() as session:
            dataset = datasets.setdefault(on, dataset_row(on, n_train=9, n_validation=9))
            experiment = experiment_row(*runs, name=name, dataset=dataset, config=options)
            session.add(experiment)
            session.flush()
            return experiment.id

    return write


@pytest.fixture
def pair(launch):
    """Two models on one task, three seeds of two λ each."""
    coordinates = [(lam, seed) for lam in (0.0, 1.0) for seed in range(3)]
    return [
        launch(name, *(ended(lam, seed, mean + lam / 10 + seed / 100, model=model) for lam, seed in coordinates))
        for name, model, mean in (("<first>", "bert_base", 0.5), ("second", "roberta", 0.6))
    ]
