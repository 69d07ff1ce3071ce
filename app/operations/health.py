"""The health check, and free and used disk space."""

import asyncio
import math
import os
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from anyio import CapacityLimiter, to_thread
from sqlalchemy import func, select
from sqlalchemy.pool import NullPool

from app.context import Context
from app.core.settings import SQLITE_SUFFIXES, Settings
from app.core.space import Disk, list_disks
from app.db.models import StoredFile
from app.db.session import create_sessions
from app.training.queue_status import count_live_workers
from isoscope.core.errors import UnavailableError

ANSWER_SECONDS = 1.5
# How long the last answer of the database counts while the next one is late, as it may be under load.
RECENT_SECONDS = 10.0
CONNECT_SECONDS = 0.2


class HealthCheck:
    """Asks the database for live workers, on a connection and a thread of its own, with at most one query at a time."""

    def __init__(self, context: Context) -> None:
        self._sessions = create_sessions(context.settings.database, poolclass=NullPool)
        self._limiter = CapacityLimiter(1)
        self._query_task: asyncio.Task[int] | None = None
        self._n_workers, self._answered_at = 0, -math.inf

    async def count_alive_workers(self) -> int:
        """Return the number of live workers, or the last known. Raise UnavailableError if that is too long ago."""
        if self._query_task is None or self._query_task.done():
            self._query_task = asyncio.create_task(self._query())
        finished, _ = await asyncio.wait({self._query_task}, timeout=ANSWER_SECONDS)
        if finished:
            return self._query_task.result()
        if time.monotonic() - self._answered_at > RECENT_SECONDS:
            raise UnavailableError(f"The database does not answer within {ANSWER_SECONDS} seconds.")
        return self._n_workers

    async def _query(self) -> int:
        self._n_workers = await to_thread.run_sync(count_live_workers, self._sessions, limiter=self._limiter)
        self._answered_at = time.monotonic()
        return self._n_workers


def try_listening(settings: Settings) -> None:
    """Bind the dashboard's address and release it; raise OSError if that fails."""
    with socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((settings.host, settings.port))


def is_listening(settings: Settings) -> bool:
    try:
        socket.create_connection((settings.host, settings.port), timeout=CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


class SpaceUse(NamedTuple):
    """A kind of data, its location, and its size."""

    kind: str
    place: str
    size_bytes: int


class Space(NamedTuple):
    """The disks of this machine, and the space that Isoscope uses there and elsewhere."""

    disks: list[Disk]
    uses: list[SpaceUse]
    reserve_bytes: int


def measure_space(context: Context) -> Space:
    settings, uses = context.settings, []
    with context.sessions() as session:
        stored_bytes = int(session.scalar(select(func.coalesce(func.sum(StoredFile.size_bytes), 0))) or 0)
        if session.get_bind().dialect.name == "postgresql":
            database_bytes = session.scalar(select(func.pg_database_size(func.current_database())))
            uses.append(SpaceUse("database", "PostgreSQL", int(database_bytes or 0)))
    uses += [
        SpaceUse("database", str(file), _total_size(Path(f"{file}{suffix}") for suffix in SQLITE_SUFFIXES))
        for file in settings.sqlite_files
    ]
    uses.append(SpaceUse("files", f"s3://{settings.bucket}" if settings.bucket else str(settings.files), stored_bytes))
    for kind, folder, is_used in (
        ("cache", settings.cache, settings.bucket is not None),
        ("run folders", settings.runs, True),
        ("database copies", settings.database_copies, settings.database_copies.exists()),
    ):
        if is_used:
            files = (Path(path, name) for path, _, names in os.walk(folder) for name in names)
            uses.append(SpaceUse(kind, str(folder), _total_size(files)))
    if (spare := context.spare_file).path.exists():
        uses.append(SpaceUse("spare file", str(spare.path), spare.size_bytes))
    return Space(list_disks(settings), uses, settings.reserve_bytes)


def _total_size(paths: Iterable[Path]) -> int:
    total = 0
    for path in paths:
        with suppress(OSError):  # missing, or just deleted
            total += path.stat().st_size
    return total
