"""Jobs that rows wait for: what workers enqueue where a crash came between a row and its job."""

from sqlalchemy import literal, select
from sqlalchemy.orm import Session

from app.db.job_kinds import KINDS, JobKind
from app.db.session import Sessions
from app.queue import Job


def wanted(sessions: Sessions) -> list[Job]:
    """Return the jobs that rows wait for, each kind in its order."""
    with sessions() as session:
        return [job for kind in KINDS.values() for job in _jobs(session, kind)]


def _jobs(session: Session, kind: JobKind) -> list[Job]:
    table = kind.table
    priority = kind.order[0] if kind.order else literal(None)
    waits = select(table.id, priority).where(table.status.in_(kind.waiting))
    rows = session.execute(waits.order_by(*(kind.order or (table.created_at,))))
    return [Job(kind, row_id, own) for row_id, own in rows]
