from datetime import UTC, datetime, timedelta

import pytest

from app.db.models import Phase, RunStatus
from app.training.queue_status import estimate_seconds_left
from tests.factories import run_row

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def run(status, began=None, ended=None, rested=0.0, step=0):
    """Return a run that started ``began`` and ended ``ended`` seconds ago."""
    times = {
        name: None if ago is None else NOW - timedelta(seconds=ago)
        for name, ago in (("started_at", began), ("finished_at", ended))
    }
    progress = {"phase": Phase.TRAINING, "phase_done": step, "phase_total": 100}
    return run_row(status=status, rested_seconds=rested, **progress, **times)


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
        ([FINISHED, run(RunStatus.RUNNING, 500), QUEUED], 1, 100),
        ([FINISHED, run(RunStatus.RUNNING, 180, step=90)], 1, 20),
        ([FINISHED, run(RunStatus.RUNNING, 60, step=9)], 1, 40),
        ([run(RunStatus.RUNNING, 50, step=25), QUEUED], 1, 350),
        ([run(RunStatus.FINISHED, 200, 100, rested=40), QUEUED], 1, 60),
    ],
)
def test_remaining_runs_take_mean_time_of_finished_runs(runs, workers, seconds):
    assert estimate_seconds_left(runs, workers, NOW) == seconds


@pytest.mark.parametrize(
    ("runs", "workers"),
    [
        ([QUEUED], 1), ([run(RunStatus.RUNNING, 50)], 1), ([FINISHED, QUEUED], 0), ([FINISHED], 1),
        ([FINISHED, run(RunStatus.PAUSED)], 1), ([FINISHED, run(RunStatus.RUNNING, 500)], 1),
    ],
)  # fmt: skip
def test_time_left_is_unknown_without_evidence(runs, workers):
    assert estimate_seconds_left(runs, workers, NOW) is None
