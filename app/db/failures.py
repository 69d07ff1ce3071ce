"""Explain database errors, and check SQLite's files after a crash."""

import logging
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import NullPool, make_url
from sqlalchemy.exc import DatabaseError, SQLAlchemyError

from app.core.settings import Settings
from app.core.space import full_disk
from app.db.migration import schema_problem
from app.db.session import cause, engine_on, redacted
from isoscope.core.errors import ConflictError, FullDiskError, IsoscopeError, UnavailableError

POSTGRESQL_FULL = "53100"
# Undefined column, undefined table.
POSTGRESQL_UNDEFINED = ("42703", "42P01")
SQLITE_UNDEFINED = ("no such column", "no such table", "has no column named")
# On a full disk SQLite says of some of its files only that they cannot be written or made.
SQLITE_UNSPECIFIC = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
NEXT_TO_NOTHING = 2**17


def explain_error(error: DatabaseError, settings: Settings) -> IsoscopeError | None:
    """Return what is wrong, in a sentence; None where the error does not say."""
    state, code = getattr(error.orig, "sqlstate", None), getattr(error.orig, "sqlite_errorcode", None)
    if state == POSTGRESQL_FULL:
        return FullDiskError("The disk of the PostgreSQL server is full. Make room there, then try again.")
    if code is not None:
        full = []
        for file in settings.sqlite_files:
            free = 0
            with suppress(OSError):
                free = shutil.disk_usage(file.parent).free
            if free < NEXT_TO_NOTHING:
                full.append(file.parent)
        if code & 0xFF == sqlite3.SQLITE_FULL or (code & 0xFF in SQLITE_UNSPECIFIC and full):
            return full_disk(next(iter(full), settings.root))
    undefined_in_sqlite = state is None and any(words in str(error.orig) for words in SQLITE_UNDEFINED)
    if undefined_in_sqlite or state in POSTGRESQL_UNDEFINED:
        with suppress(SQLAlchemyError), engine_on(settings.database) as engine:
            problem = schema_problem(engine)
            return None if problem is None else UnavailableError(str(problem))
    return None


logger = logging.getLogger(__name__)


@contextmanager
def checked_after_a_crash(mark: Path, *urls: str) -> Iterator[None]:
    """Keep a mark while the context is open; where one was left, check the databases first.

    Raises ConflictError where one is damaged. An exception leaves the mark.
    """
    if mark.exists():
        logger.warning("The last end was not an orderly one: checking the databases.")
        for url in urls:
            require_intact(url)
    mark.touch()
    yield
    mark.unlink(missing_ok=True)


def require_intact(url: str) -> None:
    """Raise ConflictError where a file of SQLite is damaged; missing files are fine."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database or not Path(parsed.database).exists():
        return
    try:
        with engine_on(url, poolclass=NullPool) as engine, engine.connect() as connection:
            problems = connection.exec_driver_sql("PRAGMA quick_check(3)").scalars().all()
    except DatabaseError as error:
        problems = [cause(error)]
    if problems != ["ok"]:
        causes = "; ".join(" ".join(problem.split()) for problem in problems)
        raise ConflictError(f"The database {redacted(parsed)} is damaged: {causes}. Restore it from a backup.")
