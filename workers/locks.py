"""Locks that show which workers are alive, and the heartbeat that workers write into their rows.

A worker holds the lock of its slot, and for a while those of work that one worker does for all, such as reconciling. A
lock is freed when its holder ends for any reason. Workers on one machine that share a folder lock files; workers that
share a PostgreSQL server lock there, so that one machine notices when another ends.
"""

import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Protocol

import psycopg
from sqlalchemy.exc import SQLAlchemyError

from app.core.process import machine_memory
from app.db.models import Attempt, Worker
from app.db.models.runs import RunningJob
from app.db.session import Sessions, error_line
from app.db.types import utcnow
from app.db.work import FileLocks, end_lost_attempts, slot_taken_error
from isoscope.core.errors import ConflictError
from isoscope.core.formatting import one_line
from workers.placement import Device

logger = logging.getLogger(__name__)

# A worker without PostgreSQL for this long ends itself and its jobs, before the server frees its locks.
FENCE_SECONDS = 20.0
# The server presumes a silent client dead after 10 + 3 * 5 s if it is idle, else after the user timeout.
SERVER_OPTIONS = (
    "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3 -c tcp_user_timeout=25000"
)
CLIENT_OPTIONS: dict[str, Any] = {
    "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 8_000,
}  # fmt: skip
CONNECT_SECONDS = 2
# After a server restart, live workers need this long to take their locks again or end.
SETTLED_SECONDS = FENCE_SECONDS + 5
CHECK_EVERY_SECONDS = 1.0
FENCED_EXIT_CODE = 4

Connection = psycopg.Connection[Any]
# SQL that turns the name of a lock into its number.
LOCK_NUMBER_SQL = "hashtextextended('isoscope:' || %s, 0)"


class Locks(Protocol):
    """Locks by name among all workers that share a queue."""

    @property
    def is_settled(self) -> bool:
        """Whether a free lock proves its holder dead; False while live workers may be taking theirs again."""

    def held(self, name: str) -> AbstractContextManager[None]:
        """Hold the lock of that name; raise ConflictError if it is taken."""


def open_locks(queue_url: str, folder: Path, kill_jobs: Callable[[], None]) -> AbstractContextManager[Locks]:
    """Return advisory locks for a queue in PostgreSQL, else file locks in ``folder``."""
    if queue_url.startswith("postgresql"):
        return AdvisoryLocks(queue_url, kill_jobs)
    return nullcontext(FileLocks(folder))


@dataclass(eq=False)
class AdvisoryLocks:
    """Advisory locks of one PostgreSQL session, which a thread keeps alive while the context is open.

    When a session is lost, a new one acquires its locks. If that fails for ``FENCE_SECONDS``, because the
    server is away or another worker has taken one of the locks, this process calls ``kill_jobs`` and ends.
    """

    url: str
    kill_jobs: Callable[[], None]
    _mutex: Lock = field(default_factory=Lock, init=False)
    _names: set[str] = field(default_factory=set, init=False)
    _stop: Event = field(default_factory=Event, init=False)

    def __enter__(self) -> "AdvisoryLocks":
        try:
            self._connection = self._connect()
        except psycopg.OperationalError as error:
            raise ConflictError(
                f"The job engine's database does not answer: {one_line(str(error))}. "
                "Start it, or correct ISOSCOPE_QUEUE_URL."
            ) from error
        self._answered_at = time.monotonic()
        for target in (self._keep_alive, self._end_if_silent):
            Thread(target=target, name="locks", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._mutex.acquire(timeout=CONNECT_SECONDS):  # times out if a check hangs and holds the mutex
            self._connection.close()

    @property
    def is_settled(self) -> bool:
        return time.monotonic() - self._opened_at > SETTLED_SECONDS

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        with self._mutex:
            try:
                # The server would give a lock to the same session twice.
                is_free = name not in self._names and _try_lock(self._connection, name)
            except psycopg.OperationalError as error:
                raise ConflictError(f"The session for the lock of {name} is lost; it is being reopened.") from error
            if not is_free:
                raise slot_taken_error(name)
            self._names.add(name)
        try:
            yield
        finally:
            # A lost session has freed its locks already.
            with self._mutex, suppress(psycopg.OperationalError):
                self._names.remove(name)
                self._connection.execute(f"select pg_advisory_unlock({LOCK_NUMBER_SQL})", (name,))

    def _connect(self) -> Connection:
        connection = psycopg.connect(
            self.url, autocommit=True, connect_timeout=CONNECT_SECONDS, options=SERVER_OPTIONS, **CLIENT_OPTIONS
        )
        self._opened_at = time.monotonic()
        return connection

    def _keep_alive(self) -> None:
        """Check regularly that the session answers; replace a lost one with one that holds the same locks."""
        while not self._stop.wait(CHECK_EVERY_SECONDS):
            try:
                with self._mutex:
                    if not self._connection.closed:
                        self._connection.execute("select 1")
                    else:
                        connection = self._connect()
                        if not all(_try_lock(connection, name) for name in self._names):
                            connection.close()
                            # The server has not yet ended the old session, or another worker has taken a lock.
                            raise psycopg.OperationalError("another session holds its locks")
                        self._connection = connection
                self._answered_at = time.monotonic()
            except psycopg.OperationalError as error:
                if not self._stop.is_set():
                    logger.warning("the session that holds this worker's locks is lost: %s", error)

    def _end_if_silent(self) -> None:
        """End the worker if the session is silent for too long; in its own thread, because ``_keep_alive`` may hang."""
        while not self._stop.wait(CHECK_EVERY_SECONDS):
            if time.monotonic() - self._answered_at > FENCE_SECONDS:
                logger.error("no answer from PostgreSQL for %.0f s: the worker and its jobs end here", FENCE_SECONDS)
                self.kill_jobs()
                os._exit(FENCED_EXIT_CODE)


def _try_lock(connection: Connection, name: str) -> bool:
    """Take a lock if it is free, and return whether it was."""
    row = connection.execute(f"select pg_try_advisory_lock({LOCK_NUMBER_SQL})", (name,)).fetchone()
    return row is not None and bool(row[0])


BEAT_SECONDS = 10


class BackgroundThread(ABC):
    """Runs ``work`` in its own thread while the context is open. Subclasses are dataclasses."""

    def __post_init__(self) -> None:
        self.stop = Event()
        """Set when the context closes."""
        self._thread = Thread(target=self.work, name=type(self).__name__.lower(), daemon=True)

    @abstractmethod
    def work(self) -> None:
        """Work until ``stop`` is set."""

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._thread.join()


@dataclass(eq=False)
class Heartbeat(BackgroundThread):
    """Adds the worker's row, updates it every ten seconds while the context is open, and deletes it at the end."""

    sessions: Sessions
    device: Device
    running_jobs: Callable[[], list[RunningJob]]
    """Returns the running jobs, in the form that the row stores."""

    def __enter__(self) -> None:
        load = self.device.read_load()
        with self.sessions.begin() as session:
            end_lost_attempts(session, Attempt.worker == self.device.slot)  # attempts of a killed worker of this slot
            now = utcnow()
            slot, name = self.device.slot, self.device.name
            row = Worker(slot=slot, device=name, pid=os.getpid(), started_at=now, heartbeat_at=now)
            row.memory_bytes, row.jobs, row.load = machine_memory(), self.running_jobs(), load
            session.merge(row)
        super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        try:
            with self.sessions.begin() as session:
                if (row := session.get(Worker, self.device.slot)) is not None:
                    session.delete(row)
        except SQLAlchemyError as error:
            logger.warning("this worker's row could not be deleted: %s", error_line(error))

    def work(self) -> None:
        while not self.stop.wait(BEAT_SECONDS):
            load = self.device.read_load()
            try:
                with self.sessions.begin() as session:
                    row = session.get(Worker, self.device.slot)
                    if row is not None:
                        row.heartbeat_at, row.jobs, row.load = utcnow(), self.running_jobs(), load
            except SQLAlchemyError as error:
                # A brief database outage must not end the worker: the next beat tries again.
                logger.warning("the heartbeat could not be written: %s", error_line(error))
