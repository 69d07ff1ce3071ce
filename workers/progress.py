"""How far a row that a worker has begun is, written once a second; a row that is no longer its own stops the work."""

import time
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Update, update
from sqlalchemy.orm import Session

from app.db.session import Sessions

SECONDS_BETWEEN_WRITES = 1.0


class StoppedError(Exception):
    """The row was cancelled, deleted or begun again by another worker while it was worked on."""


class Progress:
    """A row that was begun at ``started_at``.

    Every write raises StoppedError if it no longer runs, or was begun again since: who began last writes.
    """

    def __init__(self, sessions: Sessions, table: Any, running: StrEnum, row_id: str, started_at: datetime) -> None:
        """Take the table and its state of running. Any: tables share ``status``, ``started_at`` and ``done``."""
        self.sessions = sessions
        self._table, self._running = table, running
        self._row_id, self._started_at = row_id, started_at
        self._written_at = 0.0

    @property
    def row(self) -> Update:
        """An update of the row, if it is still this one's."""
        return update(self._table).where(
            self._table.id == self._row_id,
            self._table.status == self._running,
            self._table.started_at == self._started_at,
        )

    def advance(self, done: int, **values: Any) -> None:
        """Say how much is done, and set other columns; may be called often, writes once a second."""
        if time.monotonic() - self._written_at >= SECONDS_BETWEEN_WRITES:
            self.say(done=done, **values)

    def say(self, **values: Any) -> None:
        """Set columns of the row in a transaction of their own."""
        with self.sessions.begin() as session:
            self.write(session, **values)

    def write(self, session: Session, **values: Any) -> None:
        """Set columns of the row in the caller's transaction; call it first, so that a stop writes nothing."""
        if session.scalar(self.row.values(**values).returning(self._table.id)) is None:
            raise StoppedError
        self._written_at = time.monotonic()
