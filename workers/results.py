"""A job that fills a row of the database: ready with what was found, or failed with why not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Update, update
from sqlalchemy.orm import Session

from app.db.models import Embedding, Lookup, PostProcessing, ResultStatus, ZetaCurve
from app.db.session import Sessions
from app.queue import Job
from app.settings import Settings
from isoscope.core.errors import ConflictError
from workers.failure import record
from workers.sessions import job_sessions

Row = TypeVar("Row", PostProcessing, Lookup, ZetaCurve)


@dataclass(frozen=True)
class Asked(Generic[Row]):
    """A row that waits for its results, with the embedding that it asks about."""

    row: Row
    embedding: Embedding
    settings: Settings
    sessions: Sessions
    waiting: Update
    """Changes the row as long as it waits."""

    def fill(self, session: Session, **found: Any) -> None:
        """Write what was found; nothing if the row waits no more."""
        session.execute(self.waiting.values(status=ResultStatus.READY, error=None, **found))

    def check(self, *, current: bool) -> None:
        """Raise ConflictError unless it asks about the vectors that are chosen now."""
        if not current:
            raise ConflictError("Other vectors were chosen of this embedding meanwhile. Ask again.")


def answer(kind: type[Row], row_id: str, settings: Settings, find: Callable[[Asked[Row]], None]) -> Sequence[Job]:
    """Have ``find`` fill a row that waits; write into the row why it could not."""
    sessions = job_sessions(settings)
    waiting = update(kind).where(kind.id == row_id, kind.status == ResultStatus.QUEUED)
    with sessions() as session:
        row = session.get(kind, row_id)
        if row is None or row.status is not ResultStatus.QUEUED:
            return ()
        embedding = session.get_one(Embedding, row.embedding_id)
    try:
        find(Asked(row, embedding, settings, sessions, waiting))
    except Exception as error:  # noqa: BLE001 - whatever it is belongs into the row, not into a retry
        record(error, sessions, waiting, status=ResultStatus.FAILED)
    return ()
