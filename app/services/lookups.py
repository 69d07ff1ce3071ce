"""Look-ups of rows by their names, among all rows of an embedding."""

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.context import Context
from app.db import job_kinds
from app.db.lookups import key_of
from app.db.models import Embedding, Lookup, ResultStatus
from app.queue import Job
from app.services.embeddings import find_embedding, require_ready
from app.services.results import repeat_failed
from isoscope.core.errors import InvalidError, NotFoundError

KEPT = 200
"""Look-ups of an embedding that are kept; the oldest go."""
MAX_NAME_CHARACTERS = 1000


def find_lookup(context: Context, embedding: Embedding, name: str) -> Lookup | None:
    """Return the look-up of a name, None if nobody asked for it."""
    with context.sessions() as session:
        return _find(session, embedding, name)


def get_lookup(context: Context, embedding_id: str, name: str) -> Lookup:
    """Return the look-up of a name."""
    with context.sessions() as session:
        found = _find(session, find_embedding(session, embedding_id), name)
    if found is None:
        raise NotFoundError(f"Nobody has looked up {name!r} in this embedding yet.")
    return found


def request_lookup(context: Context, embedding_id: str, name: str) -> Lookup:
    """Have the row of a name looked up, unless it was already; one that failed again."""
    with context.sessions() as session:
        embedding = find_embedding(session, embedding_id)
        require_ready(embedding, "a look-up")
        if (embedding.selection or {}).get("names") is None:
            raise InvalidError(f"The rows of {embedding.name} have no names. Choose the names on its page.", "name")
        if not name or len(name) > MAX_NAME_CHARACTERS:
            raise InvalidError(f"Give a name of 1 to {MAX_NAME_CHARACTERS:,} characters.", "name")
        found = _find(session, embedding, name)
    if found is None:
        _add(context, embedding, name)
    elif found.status is ResultStatus.FAILED:
        repeat_failed(context, Lookup, Job(job_kinds.LOOKUP, found.id))
    return get_lookup(context, embedding_id, name)


def _find(session: Session, embedding: Embedding, name: str) -> Lookup | None:
    own = Lookup.embedding_id == embedding.id, Lookup.key == key_of(embedding, name)
    return session.scalar(select(Lookup).where(*own))


def _add(context: Context, embedding: Embedding, name: str) -> None:
    asked = Lookup(embedding_id=embedding.id, key=key_of(embedding, name), name=name)
    own = Lookup.embedding_id == embedding.id
    newest = select(Lookup.id).where(own).order_by(Lookup.created_at.desc(), Lookup.id).limit(KEPT)
    try:
        with context.sessions.begin() as session:
            session.add(asked)
            session.flush()
            kept = list(session.scalars(newest))
            old = own, Lookup.id.not_in(kept), Lookup.status != ResultStatus.QUEUED
            session.execute(delete(Lookup).where(*old))
    except IntegrityError:
        return  # the same was asked for, or the embedding deleted, at this moment: a look will tell
    context.queue.enqueue(Job(job_kinds.LOOKUP, asked.id))
