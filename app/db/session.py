"""Engines and sessions for SQLite and PostgreSQL, hidden rows, and a clock function that old SQLite lacks.

Rows of an import are hidden from all queries until the import finishes, and rows of a deleted experiment until they are
removed. The filter is added to each query when it runs, so that no query can forget it. A query that has to see hidden
rows sets the execution option ``INCLUDE_HIDDEN``.

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
from isoscope.core.formatting import one_line

# The first version of SQLite whose ``unixepoch`` takes 'subsec'.
SUBSECOND_VERSION = (3, 42)
CONNECT_SECONDS = 5
SECONDS_BETWEEN_TRIES = 0.5
# Connections that stay open, and maximum connections: on SQLite one for each thread of the web process, because they
# are cheap; on PostgreSQL fewer, because its server allows few.
OPEN_CONNECTIONS, MAX_SQLITE_CONNECTIONS, MAX_POSTGRESQL_CONNECTIONS = 5, 40, 15
# How long a request waits for a connection before it fails.
POOL_SECONDS = 10
# Execution option of queries that see hidden rows too.
INCLUDE_HIDDEN = "arriving"
_IS_UNFINISHED = Import.status != ImportStatus.FINISHED
_IMPORTING_EXPERIMENTS = select(Import.experiment_id).where(Import.experiment_id.is_not(None), _IS_UNFINISHED)
_IMPORTING_DATASETS = select(Import.dataset_id).where(Import.dataset_id.is_not(None), _IS_UNFINISHED)


def unixepoch(modifier: str) -> float:
    """Return the seconds since 1970, truncated to milliseconds, as SQLite's function does for 'subsec'."""
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


def create_database_engine(url: str, *, retry_seconds: float = 0, poolclass: type[Pool] | None = None) -> Engine:
    """Return an engine for the database at ``url``.

    A writer of SQLite waits for another writer for the seconds in ``?timeout=`` of the URL, by default 30. Connecting
    to PostgreSQL is retried for ``retry_seconds``.
    """
    is_sqlite = url.startswith("sqlite")
    connect_args = {"connect_timeout": CONNECT_SECONDS}
    if is_sqlite:
        connect_args = {} if "timeout" in make_url(url).query else {"timeout": BUSY_SECONDS}
    pool_options: dict[str, Any] = {}
    if poolclass is None:
        overflow = (MAX_SQLITE_CONNECTIONS if is_sqlite else MAX_POSTGRESQL_CONNECTIONS) - OPEN_CONNECTIONS
        pool_options = {"pool_size": OPEN_CONNECTIONS, "max_overflow": overflow, "pool_timeout": POOL_SECONDS}
    engine = create_engine(
        url, json_serializer=strict_json, poolclass=poolclass, pool_pre_ping=not is_sqlite, connect_args=connect_args,
        **pool_options,
    )  # fmt: skip
    if is_sqlite:
        event.listen(engine, "connect", _configure_sqlite)
    else:
        event.listen(engine, "do_connect", partial(_connect, retry_seconds))
    return engine


@contextmanager
def temporary_engine(url: str, *, poolclass: type[Pool] | None = None) -> Iterator[Engine]:
    engine = create_database_engine(url, poolclass=poolclass)
    try:
        yield engine
    finally:
        engine.dispose()


def create_sessions(url: str, *, retry_seconds: float = 0, poolclass: type[Pool] | None = None) -> Sessions:
    """Return a factory of sessions that hide unfinished rows; ``with sessions.begin() as session`` commits."""
    engine = create_database_engine(url, retry_seconds=retry_seconds, poolclass=poolclass)
    sessions = sessionmaker(engine, expire_on_commit=False)
    event.listen(sessions, "do_orm_execute", _hide_unfinished_rows)
    return sessions


_experiments = Experiment.__table__  # the plain table, so that the filter does not apply to its own query
_DELETED_EXPERIMENTS = select(_experiments.c.id).where(_experiments.c.removed_at.is_not(None))
_EXPERIMENT_IS_VISIBLE = Experiment.id.not_in(_IMPORTING_EXPERIMENTS) & Experiment.removed_at.is_(None)
_RUN_IS_VISIBLE = Run.experiment_id.not_in(_IMPORTING_EXPERIMENTS) & Run.experiment_id.not_in(_DELETED_EXPERIMENTS)
# Loading a relationship is a query of its own, which is filtered too. Rows that inherit filters cannot be pickled.
_HIDDEN_ROW_FILTERS = (
    with_loader_criteria(Experiment, _EXPERIMENT_IS_VISIBLE, propagate_to_loaders=False),
    with_loader_criteria(Run, _RUN_IS_VISIBLE, propagate_to_loaders=False),
    with_loader_criteria(Dataset, Dataset.id.not_in(_IMPORTING_DATASETS), propagate_to_loaders=False),
)


def _hide_unfinished_rows(state: ORMExecuteState) -> None:
    """Hide rows that are being imported or removed."""
    if not isinstance(state.statement, Select) or state.is_column_load:
        return
    if not state.execution_options.get(INCLUDE_HIDDEN, False):
        state.statement = state.statement.options(*_HIDDEN_ROW_FILTERS)


def require_database(url: str, setting: str) -> None:
    """Raise ConflictError if the database at ``url`` does not answer. ``setting`` names the variable to correct."""
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
    """Return the database driver's message in one line, without a final period."""
    return one_line(str(getattr(error, "orig", None) or error)).rstrip(".")


def error_line(error: Exception) -> str:
    """Return an error as one log line; for a database error, the driver's message."""
    if isinstance(error, SQLAlchemyError):
        return driver_message(error)
    return f"{type(error).__name__}: {one_line(str(error))}"


# Held while waiting runs are reordered, and while test scores are opened or runs are added or deleted.
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
    """Let readers work next to a writer, and let ``lower`` handle all letters, not only A to Z, as on PostgreSQL."""
    cast("sqlite3.Connection", connection).create_function(
        "lower", 1, lambda text: None if text is None else text.lower(), deterministic=True
    )
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.close()


def _connect(
    retry_seconds: float, dialect: Dialect, _: ConnectionPoolEntry, args: list[Any], options: dict[str, Any]
) -> DBAPIConnection:
    """Connect to PostgreSQL, and try again for ``retry_seconds`` if it does not answer."""
    deadline = time.monotonic() + retry_seconds
    while True:
        try:
            return dialect.connect(*args, **options)
        except dialect.loaded_dbapi.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(SECONDS_BETWEEN_TRIES)
