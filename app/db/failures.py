"""Why a database refused a statement, where that is not that it is away: a full disk, tables of another version."""

import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path

from sqlalchemy.exc import DatabaseError, SQLAlchemyError

from app.db.migration import schema_problem
from app.db.session import create_database_engine
from app.settings import Settings
from app.storage.space import full_disk
from isoscope.core.errors import FullDiskError, IsoscopeError, UnavailableError

POSTGRESQL_FULL = "53100"
POSTGRESQL_UNDEFINED = ("42703", "42P01")
"""Undefined column, undefined table."""
SQLITE_UNDEFINED = ("no such column", "no such table", "has no column named")
# On a full disk SQLite says of some of its files only that they cannot be written or made.
SQLITE_VAGUE = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
NEXT_TO_NOTHING = 2**17


def told_by(error: DatabaseError, settings: Settings) -> IsoscopeError | None:
    """Return what is wrong, in a sentence; None where the error does not say."""
    if (full := _full(error, settings)) is not None:
        return full
    if _undefined(error):
        with suppress(SQLAlchemyError):
            engine = create_database_engine(settings.database)
            try:
                problem = schema_problem(engine)
            finally:
                engine.dispose()
            return None if problem is None else UnavailableError(str(problem))
    return None


def _full(error: DatabaseError, settings: Settings) -> FullDiskError | None:
    if getattr(error.orig, "sqlstate", None) == POSTGRESQL_FULL:
        return FullDiskError("The disk of the PostgreSQL server is full. Make room there, then try again.")
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is None:
        return None
    full = [file.parent for file in settings.sqlite_files if _free(file.parent) < NEXT_TO_NOTHING]
    if code & 0xFF == sqlite3.SQLITE_FULL or (code & 0xFF in SQLITE_VAGUE and full):
        return full_disk(next(iter(full), settings.root))
    return None


def _free(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def _undefined(error: DatabaseError) -> bool:
    if (state := getattr(error.orig, "sqlstate", None)) is not None:
        return state in POSTGRESQL_UNDEFINED
    return any(words in str(error.orig) for words in SQLITE_UNDEFINED)
