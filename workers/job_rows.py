"""Read and update the row that a job works on, in sessions that wait for the database."""

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
from workers.failure import log_and_describe, raise_if_temporary, record_error

# How long to try to reach the database again: longer than a worker goes without its locks (workers.locks), so that jobs
# survive any outage that their worker does.
RECONNECT_SECONDS = 30


def job_sessions(settings: Settings) -> Sessions:
    """Return sessions that keep no connection open, because a job may take hours and writes only briefly."""
    return create_sessions(settings.database, retry_seconds=RECONNECT_SECONDS, poolclass=NullPool)


def lock_waiting_row(session: Session, job_embedding: models.Embedding) -> models.Embedding | None:
    """Lock and return the row if it still waits for the job, which read it as ``job_embedding``; else return None.

    The selection is compared too: after a new selection, the row may wait for the same kind of job again.
    """
    row = session.get(models.Embedding, job_embedding.id, with_for_update=True)
    expected = (job_embedding.status, job_embedding.selection)
    return row if row is not None and (row.status, row.selection) == expected else None


def run_embedding_job(
    status: models.EmbeddingStatus,
    work: Callable[[models.Embedding, Settings, Sessions], Sequence[Job]],
    embedding_id: str,
    settings: Settings,
    device: str,
) -> Sequence[Job]:
    """Call ``work`` on an embedding that still has this status; write errors into its row. Return follow-up jobs."""
    sessions = job_sessions(settings)
    with sessions() as session:
        embedding = session.get(models.Embedding, embedding_id)
    if embedding is None or embedding.status is not status:
        return ()
    try:
        return work(embedding, settings, sessions)
    except Exception as error:  # noqa: BLE001 - any but temporary errors belong in the row
        raise_if_temporary(error)
        with sessions.begin() as session:
            if (row := lock_waiting_row(session, embedding)) is not None:
                row.status, row.error = models.EmbeddingStatus.FAILED, log_and_describe(error)
        return ()


def make_file_rows(vectors: tuple[str, Stored], *annotations: tuple[str, Stored]) -> list[models.EmbeddingFile]:
    """Return the file rows of an embedding made here, from (filename, stored file) pairs."""
    roles = [models.FileRole.VECTORS, *[models.FileRole.ANNOTATIONS] * len(annotations)]
    return [
        models.EmbeddingFile(position=position, role=role, filename=filename, file_sha256=stored.sha256)
        for position, (role, (filename, stored)) in enumerate(zip(roles, [vectors, *annotations], strict=True))
    ]


ResultRow = TypeVar(
    "ResultRow", models.PostProcessing, models.Lookup, models.ZetaCurve, models.Alignment, models.MapLayout
)
ProgressRow = TypeVar("ProgressRow", models.Encoding, models.Import, models.TaskRun)


@dataclass(frozen=True)
class ResultJob(Generic[ResultRow]):
    """A row that waits for its results, with its embedding."""

    row: ResultRow
    embedding: models.Embedding
    settings: Settings
    sessions: Sessions
    update_waiting: Update
    """An update of the row that applies only while it waits."""

    def fill(self, session: Session, **values: Any) -> None:
        """Write the results and mark the row as ready, if it still waits."""
        session.execute(self.update_waiting.values(status=models.ResultStatus.READY, error=None, **values))

    def require_current_vectors(self, *, is_current: bool) -> None:
        """Raise ConflictError unless the embedding's vectors are those of the request."""
        if not is_current:
            raise ConflictError("Other vectors of this embedding have been selected since. Try again.")


def run_result_job(
    table: type[ResultRow],
    compute: Callable[[ResultJob[ResultRow]], None],
    row_id: str,
    settings: Settings,
    device: str,
) -> Sequence[Job]:
    """Call ``compute`` to fill a row that still waits, and write errors into the row; return no follow-up jobs."""
    sessions = job_sessions(settings)
    update_waiting = update(table).where(table.id == row_id, table.status == models.ResultStatus.QUEUED)
    with sessions() as session:
        row = session.get(table, row_id)
        if row is None or row.status is not models.ResultStatus.QUEUED:
            return ()
        embedding = session.get_one(models.Embedding, row.embedding_id)
    try:
        compute(ResultJob(row, embedding, settings, sessions, update_waiting))
    except Exception as error:  # noqa: BLE001 - any but temporary errors belong in the row
        record_error(error, sessions, update_waiting, status=models.ResultStatus.FAILED)
    return ()


SECONDS_BETWEEN_WRITES = 1.0


class StoppedError(Exception):
    """The row was cancelled, deleted or begun again by another worker while a job worked on it."""


@dataclass(eq=False)
class JobProgress:
    """Writes into a row that this job has begun; raises StoppedError once the row was stopped or begun again."""

    sessions: Sessions
    table: Any
    running_status: StrEnum
    row_id: str
    started_at: datetime
    _written_at: float = field(default=0.0, init=False)

    @classmethod
    def begin(
        cls,
        sessions: Sessions,
        table: type[ProgressRow],
        unfinished_statuses: Collection[StrEnum],
        running_status: StrEnum,
        row_id: str,
        **values: Any,
    ) -> tuple[ProgressRow, "JobProgress"] | None:
        """Mark a row as running and set ``values``; return it with its progress, or None if it has ended or is gone."""
        with sessions.begin() as session:
            row = session.get(table, row_id, with_for_update=True)
            if row is None or row.status not in unfinished_statuses:
                return None
            started_at = utcnow()
            for name, value in {"status": running_status, "started_at": started_at, **values}.items():
                setattr(row, name, value)
            return row, cls(sessions, table, running_status, row_id, started_at)

    @property
    def update_running(self) -> Update:
        """Return an update of the row that applies only while this worker runs it."""
        table = self.table
        return update(table).where(
            table.id == self.row_id, table.status == self.running_status, table.started_at == self.started_at
        )

    def advance(self, done: int, **values: Any) -> None:
        """Write the progress and other columns, unless the row was written less than a second ago."""
        if time.monotonic() - self._written_at >= SECONDS_BETWEEN_WRITES:
            self.write_and_commit(done=done, **values)

    def write_and_commit(self, **values: Any) -> None:
        with self.sessions.begin() as session:
            self.write(session, **values)

    def write(self, session: Session, **values: Any) -> None:
        """Set columns. A StoppedError rolls back the caller's transaction, so that a stopped job writes nothing."""
        if session.scalar(self.update_running.values(**values).returning(self.table.id)) is None:
            raise StoppedError
        self._written_at = time.monotonic()
