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
from app.core.space import full_disk_error
from app.db.migration import schema_problem
from app.db.session import driver_message, redacted, temporary_engine
from isoscope.core.errors import ConflictError, FullDiskError, IsoscopeError, UnavailableError

POSTGRESQL_FULL = "53100"
# Errors about a missing column or table.
POSTGRESQL_UNDEFINED = ("42703", "42P01")
SQLITE_UNDEFINED = ("no such column", "no such table", "has no column named")
# Errors that SQLite may report on a full disk: a file cannot be written or created.
SQLITE_UNSPECIFIC = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
NEARLY_FULL_BYTES = 2**17


def explain_error(error: DatabaseError, settings: Settings) -> IsoscopeError | None:
    """Return an error that explains a full disk or missing tables to users; None for other database errors."""
    sqlstate, sqlite_code = getattr(error.orig, "sqlstate", None), getattr(error.orig, "sqlite_errorcode", None)
    if sqlstate == POSTGRESQL_FULL:
        return FullDiskError("The disk of the PostgreSQL server is full. Make room there, then try again.")
    if sqlite_code is not None:
        primary_code, full_folders = sqlite_code & 0xFF, []
        for file in settings.sqlite_files:
            free_bytes = 0
            with suppress(OSError):
                free_bytes = shutil.disk_usage(file.parent).free
            if free_bytes < NEARLY_FULL_BYTES:
                full_folders.append(file.parent)
        if primary_code == sqlite3.SQLITE_FULL or (primary_code in SQLITE_UNSPECIFIC and full_folders):
            return full_disk_error(next(iter(full_folders), settings.root))
    undefined_in_sqlite = sqlstate is None and any(words in str(error.orig) for words in SQLITE_UNDEFINED)
    if undefined_in_sqlite or sqlstate in POSTGRESQL_UNDEFINED:
        with suppress(SQLAlchemyError), temporary_engine(settings.database) as engine:
            problem = schema_problem(engine)
            return None if problem is None else UnavailableError(str(problem))
    return None


logger = logging.getLogger(__name__)


@contextmanager
def check_after_crash(marker: Path, *urls: str) -> Iterator[None]:
    """Keep a marker file while the context is open. If a crash left it behind, check the databases at ``urls`` first.

    Raises ConflictError if a database is damaged. If the context raises, the marker stays, as after a crash.
    """
    if marker.exists():
        logger.warning("Isoscope was not stopped cleanly the last time: checking the databases.")
        for url in urls:
            require_intact(url)
    marker.touch()
    yield
    marker.unlink(missing_ok=True)


def require_intact(url: str) -> None:
    """Raise ConflictError if a SQLite file is damaged. A missing file is fine."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database or not Path(parsed.database).exists():
        return
    try:
        with temporary_engine(url, poolclass=NullPool) as engine, engine.connect() as connection:
            problems = connection.exec_driver_sql("PRAGMA quick_check(3)").scalars().all()
    except DatabaseError as error:
        problems = [driver_message(error)]
    if problems != ["ok"]:
        causes = "; ".join(" ".join(problem.split()) for problem in problems)
        raise ConflictError(f"The database {redacted(parsed)} is damaged: {causes}. Restore it from a backup.")
