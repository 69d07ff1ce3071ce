from datetime import UTC, datetime, timedelta

import pytest

from app.db.models import RunStatus
from app.training.queue_status import seconds_left
from tests.factories import run_row

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def run(status, began=None, ended=None, rested=0.0):
    """A run that began and ended so many seconds ago."""
    times = {
        name: None if ago is None else NOW - timedelta(seconds=ago)
        for name, ago in (("started_at", began), ("finished_at", ended))
    }
    return run_row(status=status, rested_seconds=rested, **times)


FINISHED = run(RunStatus.FINISHED, 200, 100)
QUEUED = run(RunStatus.QUEUED)


@pytest.mark.parametrize(
    ("runs", "workers", "seconds"),
    [
        ([FINISHED, QUEUED, QUEUED], 1, 200),
        ([FINISHED, QUEUED, QUEUED], 2, 100),
        ([FINISHED, QUEUED], 8, 100),
        ([FINISHED, run(RunStatus.RUNNING, 30), QUEUED], 1, 170),
        ([FINISHED, run(RunStatus.RUNNING, 30)], 4, 70),
        ([FINISHED, run(RunStatus.RUNNING, 500)], 1, 0),
        ([run(RunStatus.FINISHED, 200, 100, rested=40), QUEUED], 1, 60),
    ],
)
def test_it_is_the_mean_time_of_finished_runs_for_each_that_is_left(runs, workers, seconds):
    assert seconds_left(runs, workers, NOW) == seconds


@pytest.mark.parametrize(
    ("runs", "workers"),
    [([QUEUED], 1), ([FINISHED, QUEUED], 0), ([FINISHED], 1), ([FINISHED, run(RunStatus.PAUSED)], 1)],
)
def test_it_is_unknown_without_a_finished_run_a_worker_or_work(runs, workers):
    assert seconds_left(runs, workers, NOW) is None
