"""The row that a job works on: read, answered, failed, or told how far it is, in sessions that wait for a database."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

from sqlalchemy import NullPool, Update, update
from sqlalchemy.orm import Session

from app.core.settings import Settings
from app.db import models
from app.db.job_kinds import Job
from app.db.session import Sessions, create_sessions
from app.db.types import utcnow
from app.storage import Stored
from isoscope.core.errors import ConflictError
from workers.failure import describe, raise_if_temporary, record

# Longer than a worker survives without its locks (workers.locks), so a job outlasts any outage that its worker does.
PATIENCE_SECONDS = 30


def job_sessions(settings: Settings) -> Sessions:
    """Return sessions that keep no connection open, because a job takes hours and writes only briefly."""
    return create_sessions(settings.database, patience=PATIENCE_SECONDS, poolclass=NullPool)


def waiting(session: Session, read: models.Embedding) -> models.Embedding | None:
    """Return the row, locked, if it still waits for the job that read it; else None.

    The selection is compared too: after a new selection, the row may wait for the same kind of job again.
    """
    row = session.get(models.Embedding, read.id, with_for_update=True)
    return None if row is None or (row.status, row.selection) != (read.status, read.selection) else row


def fail(error: Exception, sessions: Sessions, read: models.Embedding) -> None:
    """Write the error's sentence into the row, if it still waits for the job that read it."""
    raise_if_temporary(error)
    with sessions.begin() as session:
        if (row := waiting(session, read)) is not None:
            row.status, row.error = models.EmbeddingStatus.FAILED, describe(error)


def files_of(vectors: tuple[str, Stored], *annotations: tuple[str, Stored]) -> list[models.EmbeddingFile]:
    """Return the file rows of an embedding made here, from (filename, stored file) pairs."""
    roles = [models.FileRole.VECTORS, *[models.FileRole.ANNOTATIONS] * len(annotations)]
    return [
        models.EmbeddingFile(position=position, role=role, filename=filename, file_sha256=stored.sha256)
        for position, (role, (filename, stored)) in enumerate(zip(roles, [vectors, *annotations], strict=True))
    ]


Row = TypeVar("Row", models.PostProcessing, models.Lookup, models.ZetaCurve, models.Alignment)
Begun = TypeVar("Begun", models.Encoding, models.Import, models.TaskRun)


@dataclass(frozen=True)
class ResultJob(Generic[Row]):
    """A row that waits for its results, with its embedding."""

    row: Row
    embedding: models.Embedding
    settings: Settings
    sessions: Sessions
    waiting: Update
    """Changes the row as long as it waits."""

    def fill(self, session: Session, **values: Any) -> None:
        """Write the results, if the row still waits."""
        session.execute(self.waiting.values(status=models.ResultStatus.READY, error=None, **values))

    def check(self, *, current: bool) -> None:
        """Raise ConflictError if the embedding's vectors have changed since the request."""
        if not current:
            raise ConflictError("Other vectors were chosen of this embedding meanwhile. Ask again.")


def answer(
    kind: type[Row], find: Callable[[ResultJob[Row]], None], row_id: str, settings: Settings, device: str
) -> Sequence[Job]:
    """Call ``find`` to fill a waiting row, and write any error into the row."""
    sessions = job_sessions(settings)
    waiting = update(kind).where(kind.id == row_id, kind.status == models.ResultStatus.QUEUED)
    with sessions() as session:
        row = session.get(kind, row_id)
        if row is None or row.status is not models.ResultStatus.QUEUED:
            return ()
        embedding = session.get_one(models.Embedding, row.embedding_id)
    try:
        find(ResultJob(row, embedding, settings, sessions, waiting))
    except Exception as error:  # noqa: BLE001 - any error belongs in the row and is not retried
        record(error, sessions, waiting, status=models.ResultStatus.FAILED)
    return ()


SECONDS_BETWEEN_WRITES = 1.0


class StoppedError(Exception):
    """The row was cancelled, deleted or begun again by another worker while it was worked on."""


@dataclass(eq=False)
class JobProgress:
    """A row that was begun at ``started_at``.

    Every write raises StoppedError if it no longer runs, or was begun again since: who began last writes.
    """

    sessions: Sessions
    table: Any
    running: StrEnum
    row_id: str
    started_at: datetime
    _written_at: float = field(default=0.0, init=False)

    @classmethod
    def begin(
        cls,
        sessions: Sessions,
        table: type[Begun],
        unfinished: Collection[StrEnum],
        running: StrEnum,
        row_id: str,
        **values: Any,
    ) -> tuple[Begun, "JobProgress"] | None:
        """Mark a row as running and set ``values``; return it with its progress, or None if it no longer waits."""
        with sessions.begin() as session:
            row = session.get(table, row_id, with_for_update=True)
            if row is None or row.status not in unfinished:
                return None
            started_at = utcnow()
            for name, value in {"status": running, "started_at": started_at, **values}.items():
                setattr(row, name, value)
            return row, cls(sessions, table, running, row_id, started_at)

    @property
    def row(self) -> Update:
        """Return an update of the row that applies only while this worker runs it."""
        table = self.table
        return update(table).where(
            table.id == self.row_id, table.status == self.running, table.started_at == self.started_at
        )

    def advance(self, done: int, **values: Any) -> None:
        """Write the progress and other columns, at most once a second."""
        if time.monotonic() - self._written_at >= SECONDS_BETWEEN_WRITES:
            self.set_columns(done=done, **values)

    def set_columns(self, **values: Any) -> None:
        with self.sessions.begin() as session:
            self.write(session, **values)

    def write(self, session: Session, **values: Any) -> None:
        """Set columns as the first statement of the caller's transaction, so that a stopped job writes nothing."""
        if session.scalar(self.row.values(**values).returning(self.table.id)) is None:
            raise StoppedError
        self._written_at = time.monotonic()
