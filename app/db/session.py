"""Engines and sessions, the same for SQLite and PostgreSQL."""

import json
from functools import partial

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import ConnectionPoolEntry

BUSY_TIMEOUT_MILLISECONDS = 30_000

# PostgreSQL refuses NaN in JSON and browsers cannot read it, so it must fail here, where it was made.
strict_json = partial(json.dumps, allow_nan=False)


def create_database_engine(url: str) -> Engine:
    """An engine for the metrics database at ``url``."""
    engine = create_engine(url, json_serializer=strict_json, pool_pre_ping=True)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _configure_sqlite)
    return engine


def _configure_sqlite(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    """Let readers and one writer work at the same time, and a second writer wait instead of fail."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MILLISECONDS}")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.close()


Sessions = sessionmaker[Session]


def create_sessions(url: str) -> Sessions:
    """A factory of sessions on the database at ``url``; ``with sessions.begin() as session`` commits."""
    return sessionmaker(create_database_engine(url), expire_on_commit=False)
