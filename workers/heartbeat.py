"""A worker's row, and the beat that shows that it lives and what it works on."""

import logging
import os
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from app.db.attempts import end_lost
from app.db.models import Attempt, Worker
from app.db.session import Sessions, one_line
from app.db.types import utcnow
from app.machine import machine_memory

logger = logging.getLogger(__name__)

BEAT_SECONDS = 10

AtWork = Callable[[], list[dict[str, Any]]]
"""Tells what is worked on, as the row has it."""


class Heartbeat:
    """Beats the worker's row every ten seconds while the context is open."""

    def __init__(self, sessions: Sessions, slot: str, device: str, at_work: AtWork) -> None:
        self._sessions = sessions
        self._slot = slot
        self._device = device
        self._at_work = at_work
        self._stop = Event()
        self._thread = Thread(target=self._beat_until_stopped, name="heartbeat", daemon=True)

    def __enter__(self) -> None:
        with self._sessions.begin() as session:
            end_lost(session, Attempt.worker == self._slot)  # of a worker of this slot that was killed
            now = utcnow()
            row = Worker(slot=self._slot, device=self._device, pid=os.getpid(), started_at=now, heartbeat_at=now)
            row.memory_bytes, row.jobs = machine_memory(), self._at_work()
            session.merge(row)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        try:
            with self._sessions.begin() as session:
                if (row := session.get(Worker, self._slot)) is not None:
                    session.delete(row)
        except SQLAlchemyError as error:
            logger.warning("the end of this worker could not be written: %s", one_line(error))

    def _beat_until_stopped(self) -> None:
        while not self._stop.wait(BEAT_SECONDS):
            try:
                with self._sessions.begin() as session:
                    row = session.get(Worker, self._slot)
                    if row is not None:
                        row.heartbeat_at, row.jobs = utcnow(), self._at_work()
            except SQLAlchemyError as error:
                # A database that is away for a moment must not end the worker; the next beat tells.
                logger.warning("the heartbeat could not be written: %s", one_line(error))
