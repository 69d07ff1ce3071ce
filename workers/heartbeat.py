"""A worker's row, and the beat that shows it lives."""

import logging
import os
from threading import Event, Thread

from sqlalchemy.exc import SQLAlchemyError

from app.db.models import Worker
from app.db.session import Sessions
from app.db.types import utcnow

logger = logging.getLogger(__name__)

BEAT_SECONDS = 10


class Heartbeat:
    """Beats the worker's row every ten seconds while the context is open."""

    def __init__(self, sessions: Sessions, slot: str, device: str) -> None:
        self._sessions = sessions
        self._slot = slot
        self._device = device
        self._stop = Event()
        self._thread = Thread(target=self._beat_until_stopped, name="heartbeat", daemon=True)

    def __enter__(self) -> None:
        with self._sessions.begin() as session:
            now = utcnow()
            session.merge(
                Worker(slot=self._slot, device=self._device, pid=os.getpid(), started_at=now, heartbeat_at=now)
            )
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        with self._sessions.begin() as session:
            if (row := session.get(Worker, self._slot)) is not None:
                session.delete(row)

    def _beat_until_stopped(self) -> None:
        while not self._stop.wait(BEAT_SECONDS):
            try:
                with self._sessions.begin() as session:
                    row = session.get(Worker, self._slot)
                    if row is not None:
                        row.heartbeat_at = utcnow()
            except SQLAlchemyError:
                # A database that is away for a moment must not end the worker; the next beat tells.
                logger.warning("the heartbeat could not be written", exc_info=True)
