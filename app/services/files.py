"""Uploaded bytes and the rows that refer to them."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import BinaryIO

from sqlalchemy import ColumnElement, exists, or_, select
from sqlalchemy.orm import Session

from app.context import Context
from app.db.models import Dataset, EmbeddingFile, StoredFile
from app.errors import ConflictError
from app.storage import Stored

# Held until the commit: between the last row of some bytes going and the bytes going, or between two looks for
# their row, the same bytes may be uploaded again.
_sharing = Lock()


def store(context: Context, stream: BinaryIO, max_bytes: int) -> Stored:
    """Keep the bytes of ``stream``; they stay without a row until ``recording`` or ``release``."""
    return context.storage.write(stream, max_bytes)


@contextmanager
def recording(context: Context, *stored: Stored) -> Iterator[Session]:
    """Open the transaction that adds the rows of stored bytes, where they have none, and whatever refers to them."""
    with _sharing, context.sessions.begin() as session:
        for one in stored:
            if not context.storage.path(one.sha256).exists():
                raise ConflictError("The same file was deleted at this moment; upload it again.")
            session.merge(StoredFile(sha256=one.sha256, size_bytes=one.size_bytes))
        session.flush()
        yield session


def release(context: Context, *hashes: str | None) -> None:
    """Delete the bytes that no row needs any more."""
    for sha256 in {found for found in hashes if found is not None}:
        with _sharing, context.sessions.begin() as session:
            if session.scalar(select(_needed(sha256))):
                continue
            if (row := session.get(StoredFile, sha256)) is not None:
                session.delete(row)
                session.flush()
            context.storage.delete(sha256)


def _needed(sha256: str) -> ColumnElement[bool]:
    embedding = exists().where(EmbeddingFile.file_sha256 == sha256)
    dataset = exists().where(or_(Dataset.train_sha256 == sha256, Dataset.validation_sha256 == sha256))
    return or_(embedding, dataset)
