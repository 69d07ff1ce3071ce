"""The clock that the job engine asks SQLite for, where SQLite has none.

DBOS 3.4.0 writes times by ``unixepoch('subsec')``, which SQLite knows from 3.42 on, and chooses it by the version of
Python (3.12 and newer), which says nothing about SQLite. With an older SQLite it gets NULL and can store no job; see
docs/upstream.md. The choice is stored in the database as the default of its columns, so that the function is needed on
every Python that opens it afterwards.
"""

import sqlite3
import time
from typing import Any

from sqlalchemy import Pool, event

KNOWS_FRACTIONS = (3, 42)
"""The first version of SQLite whose ``unixepoch`` takes 'subsec'."""


def unixepoch(modifier: str) -> float:
    """Return the seconds since 1970 to a millisecond, as SQLite does for 'subsec'."""
    if modifier not in ("subsec", "subsecond"):
        raise ValueError(f"Expected 'subsec' or 'subsecond', got {modifier!r}.")
    return time.time_ns() // 1_000_000 / 1000


def add_clock(connection: Any, _: object = None) -> None:
    """Give a connection the function, if it is one of SQLite's and its SQLite is too old to have it."""
    if isinstance(connection, sqlite3.Connection) and sqlite3.sqlite_version_info < KNOWS_FRACTIONS:
        connection.create_function("unixepoch", 1, unixepoch)


def add_clock_to_all_connections() -> None:
    """Give it to every connection of this process: the engine opens its own, some of them out of reach."""
    if not event.contains(Pool, "connect", add_clock):
        event.listen(Pool, "connect", add_clock)
