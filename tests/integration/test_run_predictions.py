import numpy as np
import pytest

from app.db.models import Run, RunPredictions, Split
from app.db.predictions import Predictions, read_predictions, write_predictions
from tests.factories import add_experiment, run_row


def predictions(predicted):
    n = len(predicted)
    return Predictions(np.arange(n), np.zeros(n, dtype=np.int64), np.array(predicted))


@pytest.mark.both_databases
def test_predictions_are_read_by_run_and_split_and_go_with_their_run(context):
    add_experiment(context, *(run_row(seed=seed, id=f"{seed:032x}") for seed in range(3)))
    first, second, third = (f"{seed:032x}" for seed in range(3))
    with context.sessions.begin() as session:
        write_predictions(session, first, Split.VALIDATION, predictions([0, 1, 1]))
        write_predictions(session, first, Split.TEST, predictions([1]))
        write_predictions(session, second, Split.VALIDATION, predictions([0, 0]))
    with context.sessions.begin() as session:
        write_predictions(session, first, Split.VALIDATION, predictions([1, 1, 1, 1]))  # in place of the others
    with context.sessions() as session:
        found = read_predictions(session, [first, second, third], Split.VALIDATION)
        assert {run_id: one.predicted.tolist() for run_id, one in found.items()} == {
            first: [1, 1, 1, 1],
            second: [0, 0],
        }
        assert read_predictions(session, [second], Split.TEST) == {}
    with context.sessions.begin() as session:
        session.delete(session.get_one(Run, first))
    with context.sessions() as session:
        assert [one.run_id for one in session.query(RunPredictions)] == [second]
