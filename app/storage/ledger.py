"""The ledger of stored files: which rows refer to them."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, BinaryIO

from sqlalchemy import CompoundSelect, exists, func, null, or_, select, union_all
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.db import models
from app.db.session import Sessions, acquire_locks
from app.db.types import utcnow
from app.storage.storage import TEMPORARY_SECONDS, Storage, Stored
from isoscope.core.errors import ConflictError, UnavailableError

logger = logging.getLogger(__name__)

# Stores a stream. The number is the maximum size in bytes.
Store = Callable[[BinaryIO, int], Stored]

# Columns that refer to stored files, each with the column of its row's embedding, if any.
REFERENCES: tuple[tuple[InstrumentedAttribute[Any], InstrumentedAttribute[str] | None], ...] = (
    (models.EmbeddingFile.file_sha256, models.EmbeddingFile.embedding_id),
    (models.FigureFile.file_sha256, models.FigureFile.embedding_id),
    (models.PostProcessing.state_sha256, models.PostProcessing.embedding_id),
    (models.Dataset.train_sha256, None),
    (models.Dataset.validation_sha256, None),
    (models.Dataset.test_sha256, None),
    (models.Encoding.file_sha256, None),
    (models.Qrels.file_sha256, None),
    (models.Import.file_sha256, None),
    (models.Run.model_sha256, None),
    (models.TaskRun.truth_sha256, models.TaskRun.embedding_id),
    (models.TaskRun.chosen_sha256, models.TaskRun.embedding_id),
    (models.TaskRun.smallest_sha256, models.TaskRun.embedding_id),
    (models.TaskRun.cutoff_sha256, models.TaskRun.embedding_id),
)


@dataclass(frozen=True)
class Ledger:
    """Keeps the files in the storage and the rows of the table of files consistent."""

    sessions: Sessions
    storage: Storage

    def store(self, stream: BinaryIO, max_bytes: int) -> Stored:
        """Store the bytes of ``stream``. They have no row until ``recording`` adds it."""
        return self.storage.write(stream, max_bytes)

    @contextmanager
    def storing(self) -> Iterator[Store]:
        """Yield a function that stores files, to be recorded in the context. On failure, delete those no row needs."""
        stored: list[Stored] = []

        def store(stream: BinaryIO, max_bytes: int) -> Stored:
            stored.append(self.store(stream, max_bytes))
            return stored[-1]

        try:
            yield store
        except BaseException:
            try:
                self.release(*(file.sha256 for file in stored))
            except SQLAlchemyError:
                # The database itself failed. The janitor of a worker removes the files a day later.
                logger.warning("%s stored files stay without a row", len(stored), exc_info=True)
            raise

    @contextmanager
    def recording(self, *stored: Stored) -> Iterator[Session]:
        """Open a transaction that adds rows for stored files. The caller adds rows that refer to them."""
        with self.sessions.begin() as session:
            # Another process may be deleting the same file, between its row and its bytes.
            acquire_locks(session.connection(), *{f"file:{file.sha256}" for file in stored})
            for file in stored:
                if not self.storage.exists(file.sha256):
                    raise ConflictError("The same file was just deleted; upload it again.")
                session.merge(models.StoredFile(sha256=file.sha256, size_bytes=file.size_bytes))
            session.flush()
            yield session

    def release(self, *hashes: str | None) -> int:
        """Delete those files to which no row refers any longer; return the freed bytes. Skip files if storage fails."""
        freed_bytes = 0
        for sha256 in set(filter(None, hashes)):
            try:
                with self.sessions.begin() as session:
                    acquire_locks(session.connection(), f"file:{sha256}")
                    if session.scalar(select(or_(*(exists().where(column == sha256) for column, _ in REFERENCES)))):
                        continue
                    size_bytes = 0
                    if (row := session.get(models.StoredFile, sha256)) is not None:
                        size_bytes = row.size_bytes
                        session.delete(row)
                        session.flush()
                    self.storage.delete(sha256)
                freed_bytes += size_bytes
            except UnavailableError:
                logger.warning("The bytes of %s stay in the storage, though no row needs them.", sha256)
        return freed_bytes

    def sweep(self) -> int:
        """Delete files stored more than a day ago that have no row; return their number.

        No job takes a day from storing to recording. Files older than the first row belong to another database.
        """
        with self.sessions() as session:
            oldest_row = session.scalar(select(func.min(models.StoredFile.created_at)))
            recorded_hashes = set(session.scalars(select(models.StoredFile.sha256)))
        if oldest_row is None:
            return 0
        cutoff = utcnow() - timedelta(seconds=TEMPORARY_SECONDS)
        old_hashes = [sha256 for sha256, stored_at in self.storage.list_files() if oldest_row <= stored_at < cutoff]
        deleted = 0
        for sha256 in set(old_hashes) - recorded_hashes:
            with self.sessions.begin() as session:
                acquire_locks(session.connection(), f"file:{sha256}")
                if session.get(models.StoredFile, sha256) is None:
                    self.storage.delete(sha256)
                    deleted += 1
        return deleted


def select_references() -> CompoundSelect[tuple[str, str | None]]:
    """Select every reference to a stored file: ``sha256``, and ``embedding_id``, null if it has none."""
    return union_all(
        *(
            select(column.label("sha256"), (null() if owner is None else owner).label("embedding_id"))
            for column, owner in REFERENCES
        )
    )
