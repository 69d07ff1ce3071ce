"""The two databases: reachable, and with the tables that this version needs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Engine, make_url, text
from sqlalchemy.exc import SQLAlchemyError

from app.db.migration import MIGRATE, known_revisions, schema_problem, try_insert
from app.db.session import cause, create_database_engine, shown
from app.operations.finding import Finding, ok, problem
from app.queue import JobQueue
from app.settings import Settings

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
                yield problem(check, wrong.found, wrong.advice)
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
    engine = create_database_engine(url)
    try:
        _require_answer(engine, check, setting)
        yield engine
    finally:
        engine.dispose()


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
