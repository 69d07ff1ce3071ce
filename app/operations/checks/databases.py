"""Look at both databases, whose tables have to be of this version, and at workers and the jobs that wait for them."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Engine, make_url, select, text
from sqlalchemy.exc import SQLAlchemyError

from app.core.settings import Settings
from app.db.migration import MIGRATE, known_revisions, schema_problem, try_insert
from app.db.models import Worker
from app.db.session import Sessions, cause, engine_on, shown
from app.db.types import utcnow
from app.db.work import slot_name, wanted
from app.operations.checks import Finding, ok, problem, warning
from app.queue import JobQueue
from app.training.queue_status import LOST_AFTER
from isoscope.core.formatting import ago, plural

WRITABLE = "Check that its user may write to it and that its disk has free space."


class UnusableError(Exception):
    """A database cannot be used; holds the finding that says so."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


def metrics_database(settings: Settings) -> Iterator[Finding]:
    """Whether rows can be read and written, and whether their tables are those of this version."""
    check = "metrics database"
    try:
        with reached(check, "ISOSCOPE_DATABASE_URL", settings.database) as engine:
            if (wrong := schema_problem(engine)) is None:
                fine = ok(check, f"{shown(engine.url)} is at schema revision {known_revisions()[0]}, the newest.")
                yield _written(check, shown(engine.url), lambda: try_insert(engine)) or fine
            else:
                yield problem(check, wrong.problem, wrong.advice)
    except UnusableError as error:
        yield error.finding
    except SQLAlchemyError as error:
        advice = "See that they are Isoscope's, and that its user may read and write them."
        yield problem(
            check, f"The tables of {shown(make_url(settings.database))} cannot be read: {cause(error)}.", advice
        )


def queue_database(settings: Settings) -> Iterator[Finding]:
    """Whether the job engine's tables can be read and written."""
    check = "queue database"
    try:
        with reached(check, "ISOSCOPE_QUEUE_URL", settings.queue) as engine:
            queue = JobQueue(settings.queue)
            try:
                jobs = len(queue.active())
            except SQLAlchemyError:
                yield problem(check, f"{shown(engine.url)} answers, and lacks tables of the job engine.", MIGRATE)
            else:
                fine = ok(check, f"{shown(engine.url)} answers; it knows {jobs} waiting or running jobs.")
                yield _written(check, shown(engine.url), queue.try_insert) or fine
            finally:
                queue.close()
    except UnusableError as error:
        yield error.finding


def _written(check: str, url: str, try_insert: Callable[[], None]) -> Finding | None:
    """The problem of a database that takes no row; None where it takes one. The row is taken back."""
    try:
        try_insert()
    except SQLAlchemyError as error:
        return problem(check, f"{url} can be read but not written: {cause(error)}.", WRITABLE)
    return None


@contextmanager
def reached(check: str, setting: str, url: str) -> Iterator[Engine]:
    """An engine on a database that answers.

    Raises UnusableError otherwise, within seconds: the job engine itself would try again for ever.
    """
    parsed = make_url(url)
    if missing(parsed):
        raise UnusableError(problem(check, f"{shown(parsed)} does not exist.", MIGRATE))
    with engine_on(url) as engine:
        _require_answer(engine, check, setting)
        yield engine


def _require_answer(engine: Engine, check: str, setting: str) -> None:
    try:
        with engine.connect() as connection:
            connection.execute(text("select 1"))
    except SQLAlchemyError as error:
        found = f"{shown(engine.url)} cannot be used: {cause(error)}."
        advice = f"See that it runs and that {setting} has its address, user and password."
        raise UnusableError(problem(check, found, advice)) from error


def missing(url: URL) -> bool:
    """Whether it is a file that is not there, which connecting would create."""
    return url.get_backend_name() == "sqlite" and bool(url.database) and not Path(str(url.database)).exists()


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
