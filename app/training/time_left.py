"""How long an experiment still takes, by what its ended runs took."""

from collections.abc import Sequence
from datetime import datetime

from app.db.models import Run, RunStatus
from app.db.types import utcnow


def seconds_left(runs: Sequence[Run], workers: int, now: datetime | None = None) -> float | None:
    """Return the time until all runs have ended, as if this experiment's runs were next; None where it is unknown.

    It is unknown before a run has finished, without a worker, and where nothing waits or works.
    """
    took = [
        (run.finished_at - run.started_at).total_seconds() - run.rested_seconds
        for run in runs
        if run.status is RunStatus.FINISHED and run.started_at is not None and run.finished_at is not None
    ]
    running = [run for run in runs if run.status is RunStatus.RUNNING]
    waiting = sum(run.status is RunStatus.QUEUED for run in runs)
    if not took or not workers or not (running or waiting):
        return None
    mean, now = sum(took) / len(took), now or utcnow()
    begun = [max(mean - (now - (run.started_at or now)).total_seconds() + run.rested_seconds, 0.0) for run in running]
    at_once = min(workers, len(running) + waiting)
    return max((waiting * mean + sum(begun)) / at_once, max(begun, default=0.0))
