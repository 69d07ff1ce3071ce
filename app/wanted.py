"""Jobs that rows wait for: what workers hand in, in turn or where a crash came between a row and its job."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import literal, select
from sqlalchemy.orm import Session

from app.db.job_kinds import KINDS, JobKind, Queue
from app.db.session import Sessions
from app.queue import Job


def wanted(sessions: Sessions) -> list[Job]:
    """Return the jobs that rows wait for, each kind in its order."""
    with sessions() as session:
        return [job for kind in KINDS.values() for job, _ in _jobs(session, kind)]


def next_in_turn(sessions: Sessions, queue: Queue, but: Collection[str]) -> Job | None:
    """Return the job of a queue whose turn it is, by priority and age, leaving out those workflow ids."""
    kinds = [kind for kind in KINDS.values() if kind.queue is queue]
    with sessions() as session:
        found = [one for kind in kinds for one in _jobs(session, kind, len(but) + 1)]
    waiting = [one for one in found if one[0].workflow_id not in but]
    return min(waiting, key=lambda one: (one[0].priority, one[1]))[0] if waiting else None


def _jobs(session: Session, kind: JobKind, most: int | None = None) -> list[tuple[Job, datetime]]:
    """Return the jobs of a kind that rows wait for, and since when."""
    table = kind.table
    order = kind.order or (literal(None), table.created_at, table.id)
    waits = select(table.id, *order[:2]).where(table.status.in_(kind.waiting))
    rows = session.execute(waits.order_by(*(kind.order or order[1:])).limit(most))
    return [(Job(kind, row_id, priority), since) for row_id, priority, since in rows]
