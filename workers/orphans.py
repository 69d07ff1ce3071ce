"""Remove what killed jobs stored and never recorded: at a worker's start and then every hour, one worker at a time."""

import logging
from threading import Event, Thread

from app.errors import ConflictError
from app.storage.ledger import Ledger
from workers.locks import Locks

logger = logging.getLogger(__name__)

EVERY_SECONDS = 60 * 60


class Janitor:
    """Sweeps the storage again and again while the context is open."""

    def __init__(self, ledger: Ledger, locks: Locks) -> None:
        self._ledger = ledger
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
                    if swept := self._ledger.sweep():
                        logger.info("%s stored files that no row names were removed", swept)
            except ConflictError:
                pass  # another worker is at it
            except Exception:
                logger.warning("the storage could not be swept", exc_info=True)
            if self._stop.wait(EVERY_SECONDS):
                return
