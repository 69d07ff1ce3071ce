"""Pause, resume and retry runs, and reorder waiting runs.

Rows change before the job engine, because trainers watch their rows. If the change of the engine fails, the workers'
reconciler makes up for it. The last checkpoint stays on the machine that trained the run.
"""

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, case, exists, func, select, update
from sqlalchemy.orm import Session, aliased

from app.context import Context
from app.db import job_kinds
from app.db.job_kinds import INTERACTIVE_PRIORITY, Job
from app.db.models import (
    FINAL,
    RETRIABLE,
    UNFINISHED,
    Attempt,
    AttemptOutcome,
    Experiment,
    ExperimentOrigin,
    Run,
    RunStatus,
)
from app.db.models.runs import DEFAULT_PRIORITY, QUEUE_ORDER
from app.db.session import TURNS_LOCK, acquire_locks, study_lock
from app.db.types import utcnow
from app.db.work import end_attempts
from app.training.experiments import get_experiment, get_run, require_changed
from isoscope.core.errors import ConflictError

FIRST_PRIORITY = INTERACTIVE_PRIORITY + 1
"""Runs come after jobs for whose result a user is waiting."""
LAST_PRIORITY = 1_000_000_000


class QueueMove(StrEnum):
    """Where to move runs in the queue."""

    FIRST = "first"
    UP = "up"
    DOWN = "down"
    LAST = "last"


class RunPriority(NamedTuple):
    """A waiting run and its priority."""

    run_id: str
    priority: int


def move_run(context: Context, run_id: str, to: QueueMove) -> Run:
    with context.sessions.begin() as session:
        acquire_locks(session.connection(), TURNS_LOCK)
        waiting = _list_priorities(session)
        old_index = next((i for i, run in enumerate(waiting) if run.run_id == run_id), None)
        if old_index is not None:
            other_runs = waiting[:old_index] + waiting[old_index + 1 :]
            new_index = {
                QueueMove.FIRST: 0,
                QueueMove.UP: max(old_index - 1, 0),
                QueueMove.DOWN: old_index + 1,
                QueueMove.LAST: len(other_runs),
            }[to]
            if new_index != old_index:
                _write_priorities(session, renumber([run_id], other_runs, min(new_index, len(other_runs))))
    return require_changed(context, run_id, old_index is not None, "a queued run can be moved in the queue")


def move_experiment(context: Context, experiment_id: str, to: QueueMove) -> Experiment:
    """Move an experiment's waiting runs before or behind all others, without changing their order."""
    own_run_ids = {run.id for run in get_experiment(context, experiment_id).runs}
    with context.sessions.begin() as session:
        acquire_locks(session.connection(), TURNS_LOCK)
        waiting = _list_priorities(session)
        other_runs = [run for run in waiting if run.run_id not in own_run_ids]
        moved_ids = [run.run_id for run in waiting if run.run_id in own_run_ids]
        index = 0 if to is QueueMove.FIRST else len(other_runs)
        _write_priorities(session, renumber(moved_ids, other_runs, index))
    return get_experiment(context, experiment_id)


def set_run_priority(context: Context, run_id: str, priority: int) -> Run:
    changed_ids = _set_priorities(context, priority, Run.id == run_id)
    return require_changed(context, run_id, changed_ids, "a run that has not ended has a place in the queue")


def set_experiment_priority(context: Context, experiment_id: str, priority: int) -> Experiment:
    get_experiment(context, experiment_id)
    _set_priorities(context, priority, Run.experiment_id == experiment_id)
    return get_experiment(context, experiment_id)


def renumber(moved_ids: Sequence[str], other_runs: Sequence[RunPriority], index: int) -> list[RunPriority]:
    """Return priorities that move runs before ``other_runs[index]``, and those of later runs that have to make room."""
    if index == len(other_runs):
        priority = min(other_runs[-1].priority + 1, LAST_PRIORITY) if other_runs else DEFAULT_PRIORITY
        return [RunPriority(run_id, priority) for run_id in moved_ids]
    priority = other_runs[index - 1].priority + 1 if index else max(FIRST_PRIORITY, other_runs[0].priority - 1)
    shift = max(priority + 1 - other_runs[index].priority, 0)
    later = other_runs[index:] if shift else []
    return [RunPriority(run_id, priority) for run_id in moved_ids] + [
        RunPriority(run.run_id, run.priority + shift) for run in later
    ]


def _list_priorities(session: Session) -> list[RunPriority]:
    rows = session.execute(select(Run.id, Run.priority).where(Run.status == RunStatus.QUEUED).order_by(*QUEUE_ORDER))
    return [RunPriority(run_id, priority) for run_id, priority in rows]


def _write_priorities(session: Session, priorities: Sequence[RunPriority]) -> None:
    if priorities:
        session.execute(update(Run), [{"id": run.run_id, "priority": run.priority} for run in priorities])


def _set_priorities(context: Context, priority: int, condition: ColumnElement[bool]) -> Sequence[str]:
    statement = update(Run).where(condition, Run.status.not_in(FINAL)).values(priority=priority).returning(Run.id)
    with context.sessions.begin() as session:
        acquire_locks(session.connection(), TURNS_LOCK)
        return session.scalars(statement).all()


SELECT_SEARCH_IDS = select(Experiment.id).where(Experiment.study.is_not(None))
WITHOUT_WORKER: dict[str, Any] = {"worker": None, "phase": None, "phase_done": 0, "phase_total": None}


def pause_run(context: Context, run_id: str) -> Run:
    return require_changed(context, run_id, _pause(context, Run.id == run_id), "a queued or running run can be paused")


def resume_run(context: Context, run_id: str) -> Run:
    run = get_run(context, run_id)
    requeued_ids = _requeue(context, (RunStatus.PAUSED,), Run.id == run_id, search_ids=[run.experiment_id])
    return require_changed(context, run_id, requeued_ids, "a paused run can be resumed")


def retry_run(context: Context, run_id: str) -> Run:
    """Retry a failed or cancelled run from its last checkpoint, if any."""
    run = get_run(context, run_id)
    if run.experiment.origin is not ExperimentOrigin.LAUNCHED:
        raise ConflictError(
            f"Only a run that was launched here can be tried again; this one was {run.experiment.origin}."
        )
    requeued_ids = _requeue(context, RETRIABLE, Run.id == run_id)
    return require_changed(context, run_id, requeued_ids, "a failed or cancelled run can be tried again")


def retry_experiment(context: Context, experiment_id: str) -> Experiment:
    """Retry the failed runs of an experiment."""
    experiment = get_experiment(context, experiment_id)
    if experiment.origin is not ExperimentOrigin.LAUNCHED:
        raise ConflictError(f"Only runs launched here can be retried. These were {experiment.origin}.")
    _requeue(context, (RunStatus.FAILED,), Run.experiment_id == experiment_id)
    return get_experiment(context, experiment_id)


def pause_experiment(context: Context, experiment_id: str) -> Experiment:
    get_experiment(context, experiment_id)
    _pause(context, Run.experiment_id == experiment_id, search_ids=[experiment_id])
    return get_experiment(context, experiment_id)


def resume_experiment(context: Context, experiment_id: str) -> Experiment:
    get_experiment(context, experiment_id)
    _requeue(context, (RunStatus.PAUSED,), Run.experiment_id == experiment_id, search_ids=[experiment_id])
    return get_experiment(context, experiment_id)


def pause_all(context: Context) -> int:
    return len(_pause(context, search_ids=context.scalars(SELECT_SEARCH_IDS)))


def resume_all(context: Context) -> int:
    return len(_requeue(context, (RunStatus.PAUSED,), search_ids=context.scalars(SELECT_SEARCH_IDS)))


def _pause(context: Context, *conditions: ColumnElement[bool], search_ids: Sequence[str] = ()) -> Sequence[str]:
    """Pause unfinished runs that meet all conditions, and these searches, which start no trials. Return run ids."""
    paused_at = case((Run.status == RunStatus.RUNNING, utcnow()), else_=Run.finished_at)
    changes = WITHOUT_WORKER | {"status": RunStatus.PAUSED, "attempts": 0, "finished_at": paused_at}
    statement = update(Run).where(Run.status.in_(UNFINISHED), *conditions).values(changes)
    with context.sessions.begin() as session:
        _set_searches_paused(session, search_ids, paused=True)
        ids = session.scalars(statement.returning(Run.id)).all()
        end_attempts(session, Attempt.run_id.in_(ids), AttemptOutcome.PAUSED)
    context.queue.cancel(*(Job(job_kinds.FINETUNE, run_id) for run_id in ids))
    return ids


def _set_searches_paused(session: Session, search_ids: Sequence[str], *, paused: bool) -> None:
    """Pause or resume the searches of experiments. Workers find resumed searches at their next poll."""
    acquire_locks(session.connection(), *(study_lock(experiment_id) for experiment_id in search_ids))
    for experiment in session.scalars(select(Experiment).where(Experiment.id.in_(search_ids))):
        if experiment.study is not None and not experiment.study.over:
            experiment.study = experiment.study.model_copy(update={"paused": paused})
    session.flush()


def _requeue(
    context: Context, statuses: Collection[RunStatus], *conditions: ColumnElement[bool], search_ids: Sequence[str] = ()
) -> Sequence[str]:
    """Requeue runs with these statuses and resume these searches; return the runs' ids. Paused runs keep their times.

    A retried run joins the latest round of seeds. A cancelled run starts a new round if all runs had ended, because the
    user may have cancelled it to look at the results.
    """
    sibling = aliased(Run)
    same_experiment = sibling.experiment_id == Run.experiment_id
    latest_round = select(func.max(sibling.seed_round)).where(same_experiment)
    has_unfinished_run = exists().where(same_experiment, sibling.status.not_in(FINAL))
    is_new_round = case(((Run.status == RunStatus.CANCELLED) & ~has_unfinished_run, 1), else_=0)
    reset_values = {
        "attempts": 0,
        "error": None,
        "cause": None,
        "error_field": None,
        "queued_at": utcnow(),
        "started_at": case((Run.status == RunStatus.PAUSED, Run.started_at)),
        "finished_at": case((Run.status == RunStatus.PAUSED, Run.finished_at)),
        "seed_round": case(
            (Run.status == RunStatus.PAUSED, Run.seed_round), else_=latest_round.scalar_subquery() + is_new_round
        ),
        "rested_seconds": case((Run.status == RunStatus.PAUSED, Run.rested_seconds), else_=0.0),
    }
    with context.sessions.begin() as session:
        _set_searches_paused(session, search_ids, paused=False)
        run_ids = session.scalars(select(Run.id).where(Run.status.in_(statuses), *conditions)).all()
        experiment_ids = select(Run.experiment_id).where(Run.id.in_(run_ids))
        hold_values: dict[str, Any] = {"held": None} if RunStatus.PAUSED in statuses else {}
        session.execute(
            update(Experiment).where(Experiment.id.in_(experiment_ids)).values(notified_at=None, **hold_values)
        )
        requeue = update(Run).where(Run.id.in_(run_ids), Run.status.in_(statuses))
        return session.scalars(
            requeue.values(status=RunStatus.QUEUED, **WITHOUT_WORKER, **reset_values).returning(Run.id)
        ).all()
