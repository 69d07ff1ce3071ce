"""The trash: its embeddings, the bytes that deleting them frees, restoring and purging."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy import ColumnElement, Select, and_, func, select
from sqlalchemy.orm import Session, defer, lazyload

from app.context import PAGE_ROWS, Context, makes_room
from app.db.models import Embedding, StoredFile
from app.db.session import acquire_locks
from app.db.types import utcnow
from app.embeddings.service import EmbeddingSummary, drop_embeddings, find_embedding, get_embedding
from app.storage.ledger import select_references
from app.web.dependencies import Row
from isoscope.core.errors import NotFoundError

TRASHED = Embedding.trashed_at.is_not(None)
TRASHED_EMBEDDINGS = select(Embedding).where(TRASHED).options(lazyload(Embedding.files), defer(Embedding.inspection))
# Held while embeddings enter or leave the trash, so that none is purged while it is being restored.
TRASH_LOCK = "trash"
# Number of embeddings purged in one transaction. Other requests can write between two transactions.
PURGE_BATCH = 100


class TrashedEmbedding(Row):
    """An embedding in the trash."""

    embedding: EmbeddingSummary
    frees_bytes: Annotated[int, Field(description="Bytes that deleting it alone would free.")]


class Trash(Row):
    """A page of the trash."""

    rows: list[TrashedEmbedding]
    total: Annotated[int, Field(description="Rows on all pages.")]
    frees_bytes: Annotated[
        int, Field(description="Bytes that deleting all would free. More than the sum if two share a file.")
    ]


class Purged(Row):
    """Embeddings that were permanently deleted, and the bytes that this freed."""

    embeddings: int
    freed_bytes: int


@makes_room
def trash_embedding(context: Context, embedding_id: str) -> Embedding:
    with context.sessions.begin() as session:
        acquire_locks(session.connection(), TRASH_LOCK)
        embedding = find_embedding(session, embedding_id)
        embedding.trashed_at = embedding.trashed_at or utcnow()
    return get_embedding(context, embedding_id)


def restore_embedding(context: Context, embedding_id: str) -> Embedding:
    with context.sessions.begin() as session:
        acquire_locks(session.connection(), TRASH_LOCK)
        find_embedding(session, embedding_id).trashed_at = None
    return get_embedding(context, embedding_id)


def list_trash(context: Context, limit: int = PAGE_ROWS, offset: int = 0) -> Trash:
    """Return rows ``offset`` to ``offset + limit`` of the trash, the most recently trashed first."""
    newest = TRASHED_EMBEDDINGS.order_by(Embedding.trashed_at.desc(), Embedding.id).limit(limit).offset(offset)
    files = _select_freed_files().subquery()
    with context.sessions() as session:
        total = session.scalars(select(func.count()).select_from(Embedding).where(TRASHED)).one()
        frees_bytes = session.scalars(select(func.coalesce(func.sum(files.c.size_bytes), 0))).one()
        rows = _add_freed_bytes(session, session.scalars(newest).all())
        return Trash(rows=rows, total=total, frees_bytes=int(frees_bytes))


def get_trashed(context: Context, embedding_id: str) -> TrashedEmbedding:
    with context.sessions() as session:
        rows = _add_freed_bytes(session, session.scalars(TRASHED_EMBEDDINGS.where(Embedding.id == embedding_id)).all())
    if not rows:
        raise _not_in_trash(embedding_id)
    return rows[0]


@makes_room
def purge_embedding(context: Context, embedding_id: str) -> Purged:
    """Permanently delete an embedding in the trash, its results, its jobs, and the files that nothing else needs."""
    purged = _purge(context, Embedding.id == embedding_id)
    if not purged.embeddings:
        raise _not_in_trash(embedding_id)
    return purged


@makes_room
def empty_trash(context: Context) -> Purged:
    embeddings = freed_bytes = 0
    while (purged := _purge(context)).embeddings:
        embeddings += purged.embeddings
        freed_bytes += purged.freed_bytes
    return Purged(embeddings=embeddings, freed_bytes=freed_bytes)


def _purge(context: Context, *conditions: ColumnElement[bool]) -> Purged:
    """Permanently delete up to PURGE_BATCH embeddings in the trash that meet all conditions."""
    with context.sessions.begin() as session:
        acquire_locks(session.connection(), TRASH_LOCK)
        ids = session.scalars(select(Embedding.id).where(TRASHED, *conditions).limit(PURGE_BATCH)).all()
        jobs, hashes = drop_embeddings(session, ids)
    context.queue.cancel(*jobs)
    return Purged(embeddings=len(ids), freed_bytes=context.ledger.release(*hashes))


def _add_freed_bytes(session: Session, embeddings: Sequence[Embedding]) -> list[TrashedEmbedding]:
    files = _select_freed_files().subquery()
    unshared_bytes = (
        select(files.c.holder, func.sum(files.c.size_bytes))
        .where(files.c.holders == 1, files.c.holder.in_([embedding.id for embedding in embeddings]))
        .group_by(files.c.holder)
    )
    freed = {embedding_id: int(size_bytes) for embedding_id, size_bytes in session.execute(unshared_bytes)}
    return [
        TrashedEmbedding(embedding=EmbeddingSummary.model_validate(embedding), frees_bytes=freed.get(embedding.id, 0))
        for embedding in embeddings
    ]


def _select_freed_files() -> Select[int, int, Any]:
    """Select the files that only the trash needs: their bytes, how many embeddings need each, and the id of one."""
    references = select_references().subquery()
    return (
        select(
            StoredFile.size_bytes,
            func.count(references.c.embedding_id.distinct()).label("holders"),
            func.min(references.c.embedding_id).label("holder"),
        )
        .join(references, references.c.sha256 == StoredFile.sha256)
        .outerjoin(Embedding, and_(Embedding.id == references.c.embedding_id, TRASHED))
        .group_by(StoredFile.sha256, StoredFile.size_bytes)
        # The outer join has no embedding for references from outside the trash.
        .having(func.count() == func.count(Embedding.id))
    )


def _not_in_trash(embedding_id: str) -> NotFoundError:
    return NotFoundError(
        f"There is no embedding {embedding_id!r} in the trash. Only embeddings in the trash can be purged."
    )
