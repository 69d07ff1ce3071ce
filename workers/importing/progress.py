"""How far an import is: written into its row, which says in turn whether it is still wanted."""

from datetime import datetime
from typing import Any

from sqlalchemy import Update, update
from sqlalchemy.orm import Session

from app.db.models import Import, ImportStatus
from app.db.session import Sessions


class ImportStoppedError(Exception):
    """The import was cancelled, or begun again by another worker, while it was worked on."""


class Progress:
    """The row of an import that was begun at ``started_at``.

    Every write raises ImportStoppedError if it no longer runs, or was begun again since: who began last writes.
    """

    def __init__(self, sessions: Sessions, import_id: str, started_at: datetime) -> None:
        self.sessions = sessions
        self._import_id = import_id
        self._started_at = started_at

    @property
    def row(self) -> Update:
        """An update of the row, if it is still this one's."""
        return update(Import).where(
            Import.id == self._import_id,
            Import.status == ImportStatus.RUNNING,
            Import.started_at == self._started_at,
        )

    def write(self, session: Session, **values: Any) -> None:
        """Set columns of the row in the caller's transaction; call it first, so that a stop writes nothing."""
        if session.scalar(self.row.values(**values).returning(Import.id)) is None:
            raise ImportStoppedError
