"""Runs: look at one, cancel one."""

from collections.abc import Iterable

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, joinedload, selectinload

from app.context import Context
from app.db import job_kinds
from app.db.attempts import end_attempts
from app.db.models import FINAL, Attempt, AttemptOutcome, Experiment, Run, RunStatus
from app.db.regularizer_options import Regularizer
from app.db.reported_config import AnyRunConfig
from app.db.types import utcnow
from app.queue import Job
from isoscope.core.errors import ConflictError, NotFoundError


def get_run(context: Context, run_id: str) -> Run:
    """One run with its experiment and its steps."""
    with context.sessions() as session:
        run = session.scalar(
            select(Run)
            .where(Run.id == run_id)
            .options(
                joinedload(Run.experiment).joinedload(Experiment.dataset),
                selectinload(Run.steps),
                selectinload(Run.timeline),
            )
        )
    if run is None:
        raise NotFoundError(f"There is no run {run_id!r}; it may have been deleted with its experiment.")
    return run


def find_baseline(context: Context, run: Run) -> AnyRunConfig | None:
    """The configuration of plain training in the run's experiment, of its seed where there is one."""
    plain = select(Run.config).where(Run.experiment_id == run.experiment_id, Run.regularizer == Regularizer.NONE)
    with context.sessions() as session:
        return session.scalar(plain.order_by(Run.seed != run.seed, Run.position).limit(1))


def cancel_run(context: Context, run_id: str) -> Run:
    """Stop a run that has not ended. What it has logged stays, for a while its last checkpoint too."""
    with context.sessions.begin() as session:
        stopped = mark_cancelled(session, [run_id])
    if not stopped:
        run = get_run(context, run_id)
        raise ConflictError(f"Only a run that has not ended can be cancelled; this one is {run.status}.")
    context.queue.cancel(Job(job_kinds.FINETUNE, run_id))
    return get_run(context, run_id)


def mark_cancelled(session: Session, run_ids: Iterable[str]) -> list[str]:
    """Set those of the runs that are not final to cancelled, and say which they were.

    The rows go first: a trainer stops when it sees its row, even if the engine never hears of it.
    """
    stopped = update(Run).where(Run.id.in_(list(run_ids)), Run.status.not_in(FINAL))
    ended = {"status": RunStatus.CANCELLED, "finished_at": func.coalesce(Run.finished_at, utcnow())}
    ids = list(session.scalars(stopped.values(ended).returning(Run.id)))
    end_attempts(session, Attempt.run_id.in_(ids), AttemptOutcome.CANCELLED)
    return ids
