"""How far an encoding is: written into its row, which says in turn whether it is still wanted."""

import time
from datetime import datetime
from typing import Any

from sqlalchemy import Update, update
from sqlalchemy.orm import Session

from app.db.models import Encoding, EncodingStatus
from app.db.session import Sessions

SECONDS_BETWEEN_WRITES = 1.0


class EncodingStoppedError(Exception):
    """The encoding was cancelled, deleted or begun again by another worker while it was worked on."""


class Progress:
    """The row of an encoding that was begun at ``started_at``.

    Every write raises EncodingStoppedError if it no longer runs, or was begun again since: who began last writes.
    """

    def __init__(self, sessions: Sessions, encoding_id: str, started_at: datetime) -> None:
        self.sessions = sessions
        self.encoding_id = encoding_id
        self.started_at = started_at
        self._written_at = 0.0

    @property
    def row(self) -> Update:
        """An update of the row, if it is still this one's."""
        return update(Encoding).where(
            Encoding.id == self.encoding_id,
            Encoding.status == EncodingStatus.RUNNING,
            Encoding.started_at == self.started_at,
        )

    def advance(self, done: int) -> None:
        """Say how many texts are done; may be called often, writes once a second."""
        if time.monotonic() - self._written_at >= SECONDS_BETWEEN_WRITES:
            self.say(done=done)

    def say(self, **values: Any) -> None:
        """Set columns of the row in a transaction of their own."""
        with self.sessions.begin() as session:
            self.write(session, **values)

    def write(self, session: Session, **values: Any) -> None:
        """Set columns of the row in the caller's transaction; call it first, so that a stop writes nothing."""
        if session.scalar(self.row.values(**values).returning(Encoding.id)) is None:
            raise EncodingStoppedError
        self._written_at = time.monotonic()
