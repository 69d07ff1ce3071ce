"""The two databases: reachable, and with the tables that this version needs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Engine, make_url, text
from sqlalchemy.exc import SQLAlchemyError

from app.db.migration import MIGRATE, known_revisions, schema_problem
from app.db.session import cause, create_database_engine, shown
from app.queue import JobQueue
from app.settings import Settings
from isoscope.finding import Finding, ok, problem


class UnusableError(Exception):
    """A database cannot be used; holds the finding that says so."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


def metrics_database(settings: Settings) -> Iterator[Finding]:
    """Whether rows can be read, and whether their tables are those of this version."""
    check = "metrics database"
    try:
        with reached(check, "ISOSCOPE_DATABASE_URL", settings.database) as engine:
            if (wrong := schema_problem(engine)) is None:
                yield ok(check, f"{shown(engine.url)} is at schema revision {known_revisions()[0]}, the newest.")
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
    """Whether the job engine's tables can be read."""
    check = "queue database"
    try:
        with reached(check, "ISOSCOPE_QUEUE_URL", settings.queue) as engine:
            queue = JobQueue(settings.queue)
            try:
                jobs = len(queue.active())
            except SQLAlchemyError:
                yield problem(check, f"{shown(engine.url)} answers, and lacks tables of the job engine.", MIGRATE)
            else:
                yield ok(check, f"{shown(engine.url)} answers; it knows {jobs} waiting or running jobs.")
            finally:
                queue.close()
    except UnusableError as error:
        yield error.finding


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
