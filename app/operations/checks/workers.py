"""The workers, and the jobs that wait for them."""

import socket
from collections.abc import Iterator

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from app.db.migration import MIGRATE
from app.db.models import Worker
from app.db.session import Sessions
from app.db.types import utcnow
from app.operations.checks.databases import UnusableError, reached
from app.operations.finding import Finding, ok, problem, warning
from app.services.workers import LOST_AFTER
from app.settings import Settings
from app.slot import slot_name
from app.wanted import wanted
from isoscope.core.formatting import ago, plural

START = "Start one: python -m workers (isoscope serve starts its own)."
AGAIN = "It is gone, or hangs: start it again. Its jobs go on from their checkpoints."


def workers(settings: Settings) -> Iterator[Finding]:
    """Who works, who is lost, and whether somebody takes the jobs that wait."""
    try:
        with reached("workers", "ISOSCOPE_DATABASE_URL", settings.database) as engine:
            sessions = Sessions(engine)
            rows, jobs = _rows(sessions), len(wanted(sessions))
    except (UnusableError, SQLAlchemyError):
        return  # the check of that database says so
    for row in rows:
        yield ok("worker", f"{_beat(row)}.") if _alive(row) else warning("worker", f"{_beat(row)}: lost.", AGAIN)
    if any(map(_alive, rows)):
        yield ok("jobs", f"Waiting or running: {plural(jobs, 'job')}.")
    elif jobs:
        yield problem("jobs", f"Waiting or running: {plural(jobs, 'job')}, and no worker is alive.", START)
    else:
        yield warning("jobs", "No worker is alive; no job waits.", START)


def own_worker(settings: Settings) -> Iterator[Finding]:
    """Whether the worker of this machine, or container, is alive."""
    try:
        with reached("worker", "ISOSCOPE_DATABASE_URL", settings.database) as engine:
            own = [row for row in _rows(Sessions(engine)) if row.slot == slot_name(settings, row.device)]
    except UnusableError as error:
        yield error.finding
        return
    except SQLAlchemyError:
        yield problem("worker", "The metrics database answers, and lacks tables of this version.", MIGRATE)
        return
    # One that lives is enough: the machine may have had another device before.
    lost = warning if any(map(_alive, own)) else problem
    for row in own:
        yield ok("worker", f"{_beat(row)}.") if _alive(row) else lost("worker", f"{_beat(row)}: lost.", AGAIN)
    if not own:
        yield problem("worker", f"None has announced itself from {socket.gethostname()}.", START)


def _rows(sessions: Sessions) -> list[Worker]:
    with sessions() as session:
        return list(session.scalars(select(Worker).order_by(Worker.slot)))


def _alive(row: Worker) -> bool:
    return utcnow() - row.heartbeat_at < LOST_AFTER


def _beat(row: Worker) -> str:
    return f"{row.slot} gave its last sign of life {ago(row.heartbeat_at, utcnow())}"
