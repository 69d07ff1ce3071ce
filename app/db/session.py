"""Engines and sessions for SQLite and PostgreSQL, hidden rows, and a clock function that old SQLite lacks.

Rows of an import are hidden from all queries until it finishes, those of a deleted experiment until they are removed.
The filter is added to each query when it runs, so that no query can forget it. A query that has to see hidden rows
sets the execution option ``INCLUDE_HIDDEN``.

DBOS 3.4.0 on Python 3.12 and newer writes times by ``unixepoch('subsec')``, which SQLite knows from 3.42 on. An older
SQLite returns NULL, and no job can be stored; see docs/upstream.md. The call is a default of columns in the database,
so every Python that opens it later needs the function.
"""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

from sqlalchemy import URL, Connection, Engine, Pool, Select, create_engine, event, func, make_url, select, text
from sqlalchemy.engine.interfaces import DBAPIConnection, Dialect
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import ORMExecuteState, Session, sessionmaker, with_loader_criteria
from sqlalchemy.pool import ConnectionPoolEntry

from app.core.settings import BUSY_SECONDS
from app.db.models import Dataset, Experiment, Import, ImportStatus, Run
from isoscope.core.errors import ConflictError

# The first version of SQLite whose ``unixepoch`` takes 'subsec'.
SUBSECOND_VERSION = (3, 42)
CONNECT_SECONDS = 5
SECONDS_BETWEEN_TRIES = 0.5
# Maximum connections. On SQLite one per thread of the web process, because they are cheap; PostgreSQL has few.
SQLITE_POOL, POSTGRESQL_POOL = 40, 15
# How long a request waits for a connection before it fails.
POOL_SECONDS = 10
# Execution option of queries that see hidden rows too.
INCLUDE_HIDDEN = "arriving"
_UNFINISHED = Import.status != ImportStatus.FINISHED
_EXPERIMENTS = select(Import.experiment_id).where(Import.experiment_id.is_not(None), _UNFINISHED)
_DATASETS = select(Import.dataset_id).where(Import.dataset_id.is_not(None), _UNFINISHED)


def unixepoch(modifier: str) -> float:
    """Return the seconds since 1970 to a millisecond, as SQLite does for 'subsec'."""
    if modifier not in ("subsec", "subsecond"):
        raise ValueError(f"Expected 'subsec' or 'subsecond', got {modifier!r}.")
    return time.time_ns() // 1_000_000 / 1000


def add_clock(connection: Any, _: object = None) -> None:
    """Add ``unixepoch`` to a connection if its SQLite is too old to have it."""
    if isinstance(connection, sqlite3.Connection) and sqlite3.sqlite_version_info < SUBSECOND_VERSION:
        connection.create_function("unixepoch", 1, unixepoch)


def add_clock_to_all_connections() -> None:
    """Add ``unixepoch`` to every connection of this process, because the job engine opens its own."""
    if not event.contains(Pool, "connect", add_clock):
        event.listen(Pool, "connect", add_clock)


# PostgreSQL and browsers reject NaN in JSON, so writing it must fail.
strict_json = partial(json.dumps, allow_nan=False)

Sessions = sessionmaker[Session]


def create_database_engine(url: str, *, patience: float = 0, poolclass: type[Pool] | None = None) -> Engine:
    """Return an engine for the metrics database at ``url``.

    On SQLite a writer waits for another for the seconds in ``?timeout=`` of the URL, by default 30. Connecting to
    PostgreSQL is retried for ``patience`` seconds.
    """
    is_sqlite = url.startswith("sqlite")
    connect_args = {"connect_timeout": CONNECT_SECONDS}
    if is_sqlite:
        connect_args = {} if "timeout" in make_url(url).query else {"timeout": BUSY_SECONDS}
    pool_options: dict[str, Any] = {}
    if poolclass is None:
        overflow = (SQLITE_POOL if is_sqlite else POSTGRESQL_POOL) - 5
        pool_options = {"pool_size": 5, "max_overflow": overflow, "pool_timeout": POOL_SECONDS}
    engine = create_engine(
        url, json_serializer=strict_json, poolclass=poolclass, pool_pre_ping=not is_sqlite, connect_args=connect_args,
        **pool_options,
    )  # fmt: skip
    if is_sqlite:
        event.listen(engine, "connect", _configure_sqlite)
    else:
        event.listen(engine, "do_connect", partial(_connect, patience))
    return engine


@contextmanager
def temporary_engine(url: str, *, poolclass: type[Pool] | None = None) -> Iterator[Engine]:
    engine = create_database_engine(url, poolclass=poolclass)
    try:
        yield engine
    finally:
        engine.dispose()


def create_sessions(url: str, *, patience: float = 0, poolclass: type[Pool] | None = None) -> Sessions:
    """Return a factory of sessions; ``with sessions.begin() as session`` commits."""
    engine = create_database_engine(url, patience=patience, poolclass=poolclass)
    sessions = sessionmaker(engine, expire_on_commit=False)
    event.listen(sessions, "do_orm_execute", _hide_unfinished_rows)
    return sessions


_removed = Experiment.__table__  # the plain table, so that the filter does not apply to its own query
_REMOVED = select(_removed.c.id).where(_removed.c.removed_at.is_not(None))
# Relationship loads are filtered too, as separate queries. Propagated filters would keep rows from being pickled.
_HIDDEN_ROW_FILTERS = (
    with_loader_criteria(
        Experiment, Experiment.id.not_in(_EXPERIMENTS) & Experiment.removed_at.is_(None), propagate_to_loaders=False
    ),
    with_loader_criteria(
        Run, Run.experiment_id.not_in(_EXPERIMENTS) & Run.experiment_id.not_in(_REMOVED), propagate_to_loaders=False
    ),
    with_loader_criteria(Dataset, Dataset.id.not_in(_DATASETS), propagate_to_loaders=False),
)


def _hide_unfinished_rows(state: ORMExecuteState) -> None:
    """Hide rows that are being imported or removed."""
    if not isinstance(state.statement, Select) or state.is_column_load:
        return
    if not state.execution_options.get(INCLUDE_HIDDEN, False):
        state.statement = state.statement.options(*_HIDDEN_ROW_FILTERS)


def require_database(url: str, setting: str) -> None:
    """Raise ConflictError if the database that ``setting`` names does not answer."""
    with temporary_engine(url) as engine:
        try:
            engine.connect().close()
        except SQLAlchemyError as error:
            raise ConflictError(
                f"The database {redacted(make_url(url))} cannot be opened: {driver_message(error)}. "
                f"Start it, or correct {setting}."
            ) from error


def redacted(url: URL) -> str:
    """Return the URL without its password and query."""
    return url.set(query={}).render_as_string(hide_password=True)


def driver_message(error: SQLAlchemyError) -> str:
    """Return the driver's message in one line."""
    return " ".join(str(getattr(error, "orig", None) or error).split()).rstrip(".")


def error_line(error: Exception) -> str:
    """Return an error as one log line; for a database error, the driver's message."""
    if isinstance(error, SQLAlchemyError):
        return driver_message(error)
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


TURNS_LOCK, OPENINGS_LOCK = "turns", "openings"


def study_lock(experiment_id: str) -> str:
    return f"study {experiment_id}"


def acquire_locks(connection: Connection, *names: str) -> None:
    """Hold these locks until the transaction ends (SQLite has a single one). Call this first in a transaction."""
    if connection.dialect.name == "sqlite":
        connection.execute(text("BEGIN IMMEDIATE"))
        return
    for name in sorted(names):  # in a fixed order, so that two transactions never deadlock
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(name, 0))))


def _configure_sqlite(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    """Let readers work next to a writer, and let ``lower`` handle all letters, as on PostgreSQL.

    SQLite's own ``lower`` handles A to Z only.
    """
    cast("sqlite3.Connection", connection).create_function(
        "lower", 1, lambda text: None if text is None else text.lower(), deterministic=True
    )
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.close()


def _connect(
    patience: float, dialect: Dialect, _: ConnectionPoolEntry, args: list[Any], options: dict[str, Any]
) -> DBAPIConnection:
    deadline = time.monotonic() + patience
    while True:
        try:
            return dialect.connect(*args, **options)
        except dialect.loaded_dbapi.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(SECONDS_BETWEEN_TRIES)
