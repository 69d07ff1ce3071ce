"""Uploaded bytes and the rows that refer to them."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from sqlalchemy import ColumnElement, exists, or_, select
from sqlalchemy.orm import Session

from app.context import Context
from app.db.models import Dataset, EmbeddingFile, StoredFile
from app.db.session import hold
from app.errors import ConflictError, UnavailableError
from app.storage import Stored

logger = logging.getLogger(__name__)


def store(context: Context, stream: BinaryIO, max_bytes: int) -> Stored:
    """Keep the bytes of ``stream``; they stay without a row until ``recording`` or ``release``."""
    return context.storage.write(stream, max_bytes)


@contextmanager
def recording(context: Context, *stored: Stored) -> Iterator[Session]:
    """Open the transaction that adds the rows of stored bytes, where they have none, and whatever refers to them."""
    with context.sessions.begin() as session:
        hold(session.connection(), *{_lock_name(one.sha256) for one in stored})
        for one in stored:
            if not context.storage.exists(one.sha256):
                raise ConflictError("The same file was deleted at this moment; upload it again.")
            session.merge(StoredFile(sha256=one.sha256, size_bytes=one.size_bytes))
        session.flush()
        yield session


def release(context: Context, *hashes: str | None) -> None:
    """Delete the bytes that no row needs any more; where the storage is out of reach they stay, for the next time.

    What referred to them is gone or was never made, and that is what the user asked for.
    """
    for sha256 in {found for found in hashes if found is not None}:
        try:
            _release(context, sha256)
        except UnavailableError:
            logger.warning("The bytes of %s stay in the storage, though no row needs them.", sha256)


def _release(context: Context, sha256: str) -> None:
    with context.sessions.begin() as session:
        hold(session.connection(), _lock_name(sha256))
        if session.scalar(select(_needed(sha256))):
            return
        if (row := session.get(StoredFile, sha256)) is not None:
            session.delete(row)
            session.flush()
        context.storage.delete(sha256)


def _lock_name(sha256: str) -> str:
    """Of the lock on some bytes and their row, held until the commit.

    Between the last row of some bytes going and the bytes going, or between two looks for their row, the same bytes
    may be uploaded again.
    """
    return f"file:{sha256}"


def _needed(sha256: str) -> ColumnElement[bool]:
    embedding = exists().where(EmbeddingFile.file_sha256 == sha256)
    dataset = exists().where(or_(Dataset.train_sha256 == sha256, Dataset.validation_sha256 == sha256))
    return or_(embedding, dataset)
