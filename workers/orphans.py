"""Remove what nobody needs: rows of removals that were cut off, files of killed jobs, and the engine's old records.

At a worker's start and then every hour, one worker at a time.
"""

import logging
from collections.abc import Callable
from threading import Event, Thread

from sqlalchemy.exc import SQLAlchemyError

from app.db.removal import remove_left
from app.db.session import one_line
from app.errors import ConflictError, UnavailableError
from app.queue import JobQueue
from app.storage.ledger import Ledger
from workers.locks import Locks

logger = logging.getLogger(__name__)

EVERY_SECONDS = 60 * 60
# Of the engine's records of jobs that have ended: what came of them stands in our rows.
KEPT_DAYS = 7.0


class Janitor:
    """Sweeps the storage and the engine again and again while the context is open."""

    def __init__(self, ledger: Ledger, queue: JobQueue, locks: Locks) -> None:
        self._ledger = ledger
        self._queue = queue
        self._locks = locks
        self._stop = Event()
        # A daemon, not waited for: a storage out of reach must not keep a worker from ending.
        self._thread = Thread(target=self._sweep_until_stopped, name="janitor", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def _sweep_until_stopped(self) -> None:
        while True:
            try:
                with self._locks.held("janitor"):
                    _do("%s removals that were cut off are done", self._remove_left)
                    _do("%s stored files that no row names were removed", self._ledger.sweep)
                    _do("%s records of jobs that ended long ago were removed", self._forget)
            except ConflictError:
                pass  # another worker is at it
            if self._stop.wait(EVERY_SECONDS):
                return

    def _remove_left(self) -> int:
        return remove_left(self._ledger.sessions)

    def _forget(self) -> int:
        return self._queue.forget_ended(KEPT_DAYS)


def _do(done: str, chore: Callable[[], int]) -> None:
    """Do a chore, and say how much there was to do; one that fails is done the next time, and keeps no other back."""
    try:
        if found := chore():
            logger.info(done, found)
    except (SQLAlchemyError, UnavailableError) as error:
        logger.warning("%s could not be done: %s", chore.__name__, one_line(error))
    except Exception:
        logger.warning("%s could not be done", chore.__name__, exc_info=True)
