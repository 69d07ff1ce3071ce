"""Runs that are put aside and go on later, and runs that ended badly and are tried again.

The rows go first: a trainer stops when it sees its row, even if the engine never hears of it, and the workers'
reconciler tells the engine what it missed. The folder with the last checkpoint stays where the run was trained.
"""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, case, select, update
from sqlalchemy.orm import Session

from app.context import Context
from app.db import job_kinds
from app.db.attempts import end_attempts
from app.db.models import (
    RETRIED,
    UNFINISHED,
    Attempt,
    AttemptOutcome,
    Experiment,
    ExperimentOrigin,
    Run,
    RunStatus,
)
from app.db.session import hold
from app.db.types import utcnow
from app.queue import Job
from app.services.experiments import get_experiment
from app.services.runs import get_run
from isoscope.core.errors import ConflictError

AT_REST: dict[str, Any] = {"worker": None, "phase": None, "phase_done": 0, "phase_total": None}


def pause_run(context: Context, run_id: str) -> Run:
    """Put a waiting or running run aside; it goes on from its last checkpoint when it is resumed."""
    if not _pause(context, Run.id == run_id):
        run = get_run(context, run_id)
        raise ConflictError(f"Only a queued or running run can be paused; this one is {run.status}.")
    return get_run(context, run_id)


def resume_run(context: Context, run_id: str) -> Run:
    """Have a paused run go on, and the search that it belongs to."""
    run = get_run(context, run_id)
    if not _queue_again(context, (RunStatus.PAUSED,), Run.id == run_id, searches=[run.experiment_id]):
        raise ConflictError(f"Only a paused run can be resumed; this one is {run.status}.")
    return get_run(context, run_id)


def retry_run(context: Context, run_id: str) -> Run:
    """Have a failed or cancelled run tried again: from its last checkpoint, or from the start where none is left."""
    run = get_run(context, run_id)
    if run.experiment.origin is not ExperimentOrigin.LAUNCHED:
        raise ConflictError(
            f"Only a run that was launched here can be tried again; this one was {run.experiment.origin}."
        )
    if not _queue_again(context, RETRIED, Run.id == run_id):
        raise ConflictError(
            f"Only a failed or cancelled run can be tried again; this one is {get_run(context, run_id).status}."
        )
    return get_run(context, run_id)


def pause_experiment(context: Context, experiment_id: str) -> Experiment:
    """Pause every run of an experiment that waits or runs; none is no error."""
    get_experiment(context, experiment_id)
    _pause(context, Run.experiment_id == experiment_id, searches=[experiment_id])
    return get_experiment(context, experiment_id)


def resume_experiment(context: Context, experiment_id: str) -> Experiment:
    """Have every paused run of an experiment go on; none is no error."""
    get_experiment(context, experiment_id)
    _queue_again(context, (RunStatus.PAUSED,), Run.experiment_id == experiment_id, searches=[experiment_id])
    return get_experiment(context, experiment_id)


def pause_all(context: Context) -> int:
    """Pause every run that waits or runs, and say how many there were."""
    return len(_pause(context, searches=_searches(context)))


def resume_all(context: Context) -> int:
    """Have every paused run go on, and say how many there were."""
    return len(_queue_again(context, (RunStatus.PAUSED,), searches=_searches(context)))


def _pause(context: Context, *which: ColumnElement[bool], searches: Sequence[str] = ()) -> Sequence[str]:
    """Pause runs, and these searches, which ask for no other run until they are resumed."""
    since = case((Run.status == RunStatus.RUNNING, utcnow()), else_=Run.finished_at)
    aside = AT_REST | {"status": RunStatus.PAUSED, "attempts": 0, "finished_at": since}
    paused = update(Run).where(Run.status.in_(UNFINISHED), *which).values(aside)
    with context.sessions.begin() as session:
        _mark(session, searches, paused=True)
        ids = session.scalars(paused.returning(Run.id)).all()
        end_attempts(session, Attempt.run_id.in_(ids), AttemptOutcome.PAUSED)
    if ids:
        context.queue.cancel(*(Job(job_kinds.FINETUNE, run_id) for run_id in ids))
    return ids


def _searches(context: Context) -> Sequence[str]:
    with context.sessions() as session:
        return session.scalars(select(Experiment.id).where(Experiment.study.is_not(None))).all()


def _mark(session: Session, searches: Sequence[str], *, paused: bool) -> None:
    """Have searches ask for no further trial, or again: the next look of a worker finds those that may."""
    hold(session.connection(), *(f"study {experiment_id}" for experiment_id in searches))
    for experiment in session.scalars(select(Experiment).where(Experiment.id.in_(searches))):
        if experiment.study is not None and not experiment.study.over:
            experiment.study = experiment.study.model_copy(update={"paused": paused})
    session.flush()


def _queue_again(
    context: Context, states: Collection[RunStatus], *which: ColumnElement[bool], searches: Sequence[str] = ()
) -> Sequence[str]:
    """Queue the runs in these states as if they had just come; these searches go on.

    Of a run that had ended the start and the end stand with its attempts. One that was paused keeps them.
    """
    anew = {
        "attempts": 0,
        "error": None,
        "cause": None,
        "error_field": None,
        "queued_at": utcnow(),
        "started_at": case((Run.status == RunStatus.PAUSED, Run.started_at)),
        "finished_at": case((Run.status == RunStatus.PAUSED, Run.finished_at)),
        "rested_seconds": case((Run.status == RunStatus.PAUSED, Run.rested_seconds), else_=0.0),
    }
    with context.sessions.begin() as session:
        _mark(session, searches, paused=False)
        chosen = session.scalars(select(Run.id).where(Run.status.in_(states), *which)).all()
        again = update(Run).where(Run.id.in_(chosen), Run.status.in_(states))
        return session.scalars(again.values(status=RunStatus.QUEUED, **AT_REST, **anew).returning(Run.id)).all()
