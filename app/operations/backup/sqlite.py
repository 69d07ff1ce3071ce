"""Copies of SQLite databases that others write to meanwhile."""

import sqlite3
from contextlib import closing
from pathlib import Path

from isoscope.core.errors import InvalidError

BESIDE = ("", "-wal", "-shm")
"""The files of a database, by what follows its name."""


def copy_database(source: Path, target: Path) -> None:
    """Copy a database as it is at one moment, by SQLite's online backup; writers do not wait.

    Raises:
        InvalidError: the copy does not pass SQLite's own check.

    """
    with closing(sqlite3.connect(source)) as living, closing(sqlite3.connect(target)) as copy:
        living.backup(copy)
        # One file, without a log of its own beside it.
        copy.execute("PRAGMA journal_mode = DELETE")
        found = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        target.unlink()
        raise InvalidError(f"{source} is damaged: {found}. Restore an earlier backup, or see SQLite's .recover.")
