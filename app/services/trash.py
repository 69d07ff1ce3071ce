"""The trash: what was put there, what deleting it for good would free, restoring and purging."""

from collections import defaultdict
from typing import NamedTuple

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session, defer, lazyload

from app.context import Context
from app.db.models import Embedding, StoredFile
from app.db.session import hold
from app.db.types import utcnow
from app.errors import NotFoundError
from app.queue import Job
from app.services.embeddings import find_embedding, get_embedding
from app.services.results import drop_embedding
from app.storage.ledger import references

TRASHED = Embedding.trashed_at.is_not(None)


class Trashed(NamedTuple):
    """An embedding in the trash, and the bytes that nobody but it needs."""

    embedding: Embedding
    frees_bytes: int


class Trash(NamedTuple):
    """What is in the trash, the last put there first, and the bytes that nobody needs but these together."""

    rows: list[Trashed]
    frees_bytes: int


class Purged(NamedTuple):
    """How many embeddings were deleted for good, and the bytes that this has freed."""

    embeddings: int
    freed_bytes: int


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


def list_trash(context: Context) -> Trash:
    """Everything in the trash, without files and inspections, and what purging it would free."""
    newest = select(Embedding).where(TRASHED).order_by(Embedding.trashed_at.desc(), Embedding.id)
    with context.sessions() as session:
        embeddings = session.scalars(newest.options(lazyload(Embedding.files), defer(Embedding.inspection))).all()
        needed_by = _needed_by(session)
    ids = {embedding.id for embedding in embeddings}
    alone: dict[str | None, int] = defaultdict(int)
    together = 0
    for (_, size_bytes), holders in needed_by.items():
        if len(holders) == 1:
            alone[next(iter(holders))] += size_bytes
        if holders <= ids:
            together += size_bytes
    return Trash([Trashed(embedding, alone[embedding.id]) for embedding in embeddings], together)


def purge_embedding(context: Context, embedding_id: str) -> Purged:
    """Delete an embedding that is in the trash for good: its rows, its jobs, and the files that nobody else needs."""
    purged = _purge(context, Embedding.id == embedding_id)
    if not purged.embeddings:
        raise NotFoundError(f"There is no embedding {embedding_id!r} in the trash. Only what is there can be purged.")
    return purged


def empty_trash(context: Context) -> Purged:
    """Delete everything in the trash for good."""
    return _purge(context)


def _purge(context: Context, *conditions: ColumnElement[bool]) -> Purged:
    jobs: list[Job] = []
    hashes: set[str | None] = set()
    with context.sessions.begin() as session:
        _hold(session)
        embeddings = session.scalars(select(Embedding).where(TRASHED, *conditions)).all()
        for embedding in embeddings:
            made, files = drop_embedding(session, embedding)
            jobs += made
            hashes.update(files)
    for job in jobs:
        context.queue.cancel(job)
    return Purged(len(embeddings), context.ledger.release(*hashes))


def _needed_by(session: Session) -> dict[tuple[str, int], set[str | None]]:
    """Who needs the files of what is in the trash: by hash and bytes, ids of embeddings, None for anything else."""
    held = references().subquery()
    in_trash = select(held.c.sha256).where(held.c.embedding_id.in_(select(Embedding.id).where(TRASHED)))
    needed = (
        select(StoredFile.sha256, StoredFile.size_bytes, held.c.embedding_id)
        .join(held, held.c.sha256 == StoredFile.sha256)
        .where(StoredFile.sha256.in_(in_trash))
    )
    needed_by: dict[tuple[str, int], set[str | None]] = defaultdict(set)
    for sha256, size_bytes, embedding_id in session.execute(needed):
        needed_by[sha256, size_bytes].add(embedding_id)
    return needed_by


def _hold(session: Session) -> None:
    """Let what is restored at this moment not be purged."""
    hold(session.connection(), "trash")
