"""Begin and end attempts at runs, in the transaction that changes the run: workers and the web process alike."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, case, func, select, update
from sqlalchemy.orm import Session

from app.db.models import Attempt, AttemptOutcome, Step, Worker
from app.db.types import utcnow


def begin_attempt(session: Session, run_id: str, worker: str) -> None:
    """Add an attempt of a run at a worker. One that was left open has lost its worker."""
    end_lost(session, Attempt.run_id == run_id)
    last = session.scalar(select(func.max(Attempt.number)).where(Attempt.run_id == run_id))
    session.add(Attempt(run_id=run_id, number=(last or 0) + 1, worker=worker))


def end_attempts(
    session: Session,
    which: ColumnElement[bool],
    outcome: AttemptOutcome,
    detail: str | None = None,
    ended_at: datetime | None = None,
) -> None:
    """End those of the attempts that are open. Call it after the runs are changed: all lock rows in this order."""
    logged = select(func.max(Step.step)).where(Step.run_id == Attempt.run_id).scalar_subquery()
    ended: dict[str, Any] = {"outcome": outcome, "detail": detail, "ended_at": ended_at or utcnow()}
    # Steps that an earlier attempt logged are taken back when this one begins to train.
    ended["last_step"] = case((Attempt.first_step.is_not(None), logged))
    still_open = update(Attempt).where(Attempt.ended_at.is_(None), which)
    session.execute(still_open.values(ended).execution_options(synchronize_session=False))


def end_lost(session: Session, which: ColumnElement[bool]) -> None:
    """End open attempts whose worker is gone, each at that worker's last heartbeat where that is known."""
    still_open = select(Attempt, Worker.heartbeat_at).outerjoin(Worker, Worker.slot == Attempt.worker)
    for attempt, heard_at in session.execute(still_open.where(Attempt.ended_at.is_(None), which)).all():
        ended_at = max(attempt.started_at, heard_at) if heard_at is not None else None
        this = (Attempt.run_id == attempt.run_id) & (Attempt.number == attempt.number)
        end_attempts(session, this, AttemptOutcome.WORKER_LOST, ended_at=ended_at)
