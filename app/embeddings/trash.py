"""The trash: what was put there, what deleting it for good would free, restoring and purging."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, func, select
from sqlalchemy.orm import Session, defer, lazyload

from app.context import PAGE_ROWS, Context, freeing
from app.db.models import Embedding, StoredFile
from app.db.session import hold
from app.db.types import utcnow
from app.embeddings.service import drop_embeddings, find_embedding, get_embedding
from app.storage.ledger import references
from isoscope.core.errors import NotFoundError

TRASHED = Embedding.trashed_at.is_not(None)
BATCH = 100
"""Embeddings that are purged in one transaction, so that others may write in between."""


class Trashed(NamedTuple):
    """An embedding in the trash, and the bytes that nobody but it needs."""

    embedding: Embedding
    frees_bytes: int


class Trash(NamedTuple):
    """A page of the trash, how much is on all pages, and the bytes that nobody needs but all of that together."""

    rows: list[Trashed]
    total: int
    frees_bytes: int


class Purged(NamedTuple):
    """How many embeddings were deleted for good, and the bytes that this has freed."""

    embeddings: int
    freed_bytes: int


@freeing
def trash_embedding(context: Context, embedding_id: str) -> Embedding:
    """Put an embedding in any state into the trash, where it stays until it is restored or purged."""
    with context.sessions.begin() as session:
        _hold(session)
        embedding = find_embedding(session, embedding_id)
        embedding.trashed_at = embedding.trashed_at or utcnow()
    return get_embedding(context, embedding_id)


def restore_embedding(context: Context, embedding_id: str) -> Embedding:
    """Take an embedding out of the trash; one that is not there stays as it is."""
    with context.sessions.begin() as session:
        _hold(session)
        find_embedding(session, embedding_id).trashed_at = None
    return get_embedding(context, embedding_id)


def list_trash(context: Context, limit: int = PAGE_ROWS, offset: int = 0) -> Trash:
    """Rows ``offset`` to ``offset + limit`` of the trash, the last put there first, without files and inspections."""
    newest = _rows().order_by(Embedding.trashed_at.desc(), Embedding.id).limit(limit).offset(offset)
    files = _freed_files().subquery()
    with context.sessions() as session:
        total = session.scalars(select(func.count()).select_from(Embedding).where(TRASHED)).one()
        frees = session.scalars(select(func.coalesce(func.sum(files.c.size_bytes), 0))).one()
        return Trash(_weighed(session, session.scalars(newest).all()), total, int(frees))


def get_trashed(context: Context, embedding_id: str) -> Trashed:
    """One embedding that is in the trash, and what purging it alone would free."""
    with context.sessions() as session:
        rows = _weighed(session, session.scalars(_rows().where(Embedding.id == embedding_id)).all())
    if not rows:
        raise _not_there(embedding_id)
    return rows[0]


@freeing
def purge_embedding(context: Context, embedding_id: str) -> Purged:
    """Delete an embedding that is in the trash for good: its rows, its jobs, and the files that nobody else needs."""
    purged = _purge(context, Embedding.id == embedding_id)
    if not purged.embeddings:
        raise _not_there(embedding_id)
    return purged


@freeing
def empty_trash(context: Context) -> Purged:
    """Delete everything in the trash for good, so many at a time."""
    embeddings = freed_bytes = 0
    while (purged := _purge(context)).embeddings:
        embeddings += purged.embeddings
        freed_bytes += purged.freed_bytes
    return Purged(embeddings, freed_bytes)


def _purge(context: Context, *conditions: ColumnElement[bool]) -> Purged:
    """Delete at most a batch of what is in the trash."""
    with context.sessions.begin() as session:
        _hold(session)
        ids = session.scalars(select(Embedding.id).where(TRASHED, *conditions).limit(BATCH)).all()
        jobs, hashes = drop_embeddings(session, ids)
    for job in jobs:
        context.queue.cancel(job)
    return Purged(len(ids), context.ledger.release(*hashes))


def _rows() -> Select[Embedding]:
    return select(Embedding).where(TRASHED).options(lazyload(Embedding.files), defer(Embedding.inspection))


def _weighed(session: Session, embeddings: Sequence[Embedding]) -> list[Trashed]:
    """Each with the bytes of the files that it alone needs."""
    files = _freed_files().subquery()
    alone = (
        select(files.c.one_holder, func.sum(files.c.size_bytes))
        .where(files.c.holders == 1, files.c.one_holder.in_([one.id for one in embeddings]))
        .group_by(files.c.one_holder)
    )
    frees = {embedding_id: int(size_bytes) for embedding_id, size_bytes in session.execute(alone)}
    return [Trashed(one, frees.get(one.id, 0)) for one in embeddings]


def _freed_files() -> Select[int, int, Any]:
    """Files that nothing outside the trash needs: bytes, how many embeddings need one, and one of these."""
    held = references().subquery()
    return (
        select(
            StoredFile.size_bytes,
            func.count(held.c.embedding_id.distinct()).label("holders"),
            func.min(held.c.embedding_id).label("one_holder"),
        )
        .join(held, held.c.sha256 == StoredFile.sha256)
        .outerjoin(Embedding, and_(Embedding.id == held.c.embedding_id, TRASHED))
        .group_by(StoredFile.sha256, StoredFile.size_bytes)
        .having(func.count() == func.count(Embedding.id))
    )


def _not_there(embedding_id: str) -> NotFoundError:
    return NotFoundError(
        f"There is no embedding {embedding_id!r} in the trash. Only embeddings in the trash can be purged."
    )


def _hold(session: Session) -> None:
    """Let what is restored at this moment not be purged."""
    hold(session.connection(), "trash")
