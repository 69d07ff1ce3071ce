"""Look up rows by their names or by a new text, and show the nearest neighbors before and after a method."""

from typing import Any, NamedTuple

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.context import Context
from app.core.names import described
from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.models import Embedding, EmbeddingOrigin, Lookup, ResultStatus
from app.db.models.embeddings import lookup_key
from app.embeddings.service import find_embedding, repeat_failed, require_ready
from isoscope.core.errors import InvalidError, NotFoundError
from isotropy.catalog import Similarity

KEPT = 200
"""Look-ups of an embedding that are kept; the oldest go."""
MAX_NAME_CHARACTERS = 1000


def why_no_text(embedding: Embedding) -> str:
    """Return why rows of an embedding cannot be found by a new text; nothing where they can."""
    made = embedding.provenance or {}
    if embedding.origin is not EmbeddingOrigin.ENCODED or "weights_sha256" not in made:
        return "These vectors were not encoded here, so Isoscope does not know which model to encode a new text with."
    if len(made["text_columns"]) > 1:
        return "The rows are pairs of texts, so a single text cannot be compared."
    if (embedding.selection or {}).get("transpose"):
        return "The rows are dimensions here, so a text cannot be compared with them."
    return ""


def find_lookup(context: Context, embedding: Embedding, asked: str, *, by_text: bool = False) -> Lookup | None:
    """Return the look-up of a name or of a text, None if nobody asked for it."""
    with context.sessions() as session:
        return _find(session, embedding, asked, by_text)


def get_lookup(context: Context, embedding_id: str, asked: str, *, by_text: bool = False) -> Lookup:
    """Return the look-up of a name or of a text."""
    with context.sessions() as session:
        found = _find(session, find_embedding(session, embedding_id), asked, by_text)
    if found is None:
        raise NotFoundError(f"Nobody has looked up {asked!r} in this embedding yet.")
    return found


def request_lookup(context: Context, embedding_id: str, asked: str, *, by_text: bool = False) -> Lookup:
    """Have the row of a name looked up, or the rows nearest to a text, unless it was already; one that failed again."""
    field = "text" if by_text else "name"
    with context.sessions() as session:
        embedding = find_embedding(session, embedding_id)
        require_ready(embedding, "a look-up")
        if by_text and (reason := why_no_text(embedding)):
            raise InvalidError(reason, field)
        if (embedding.selection or {}).get("names") is None:
            raise InvalidError(f"The rows of {embedding.name} have no names. Choose the names on its page.", field)
        if not asked.strip() or len(asked) > MAX_NAME_CHARACTERS:
            raise InvalidError(f"Give a {field} of 1 to {MAX_NAME_CHARACTERS:,} characters.", field)
        found = _find(session, embedding, asked, by_text)
    if found is None:
        _add(context, embedding, asked, by_text)
    elif found.status is ResultStatus.FAILED:
        repeat_failed(context, Lookup, Job(job_kinds.LOOKUP, found.id))
    return get_lookup(context, embedding_id, asked, by_text=by_text)


def _find(session: Session, embedding: Embedding, asked: str, by_text: bool) -> Lookup | None:
    own = Lookup.embedding_id == embedding.id, Lookup.key == lookup_key(embedding, asked, by_text=by_text)
    return session.scalar(select(Lookup).where(*own))


def _add(context: Context, embedding: Embedding, name: str, by_text: bool) -> None:
    asked = Lookup(embedding_id=embedding.id, key=lookup_key(embedding, name, by_text=by_text), name=name)
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


class Neighbour(NamedTuple):
    """A row by its name, and its cosine, dot product or distance."""

    name: str
    near: float


class Neighbours(NamedTuple):
    """What is stored of a few rows, and the row that was chosen of them."""

    names: list[str]
    chosen: str
    unknown: str
    """The name that was asked for if it is none of them, so that the first stands in; else empty."""
    rows: int
    """Rows among which neighbors were sought."""
    method: str
    before: list[Neighbour]
    after: list[Neighbour]
    similarity: Similarity = Similarity.COSINE
    lookup: Lookup | None = None
    """Among all rows of the name in ``unknown``, or of what is shown; None if nobody asked for it."""

    @property
    def waiting(self) -> bool:
        """Whether a worker still has to look the name up."""
        return self.lookup is not None and self.lookup.waiting

    @property
    def pairs(self) -> list[tuple[Neighbour | None, Neighbour | None]]:
        """The lists side by side, the nearest first."""
        longest = max(len(self.before), len(self.after))
        return [(_at(self.before, i), _at(self.after, i)) for i in range(longest)]

    @property
    def kept(self) -> int:
        """How many names are in both lists."""
        return len({one.name for one in self.before} & {one.name for one in self.after})

    @property
    def new(self) -> set[str]:
        """Names that are there after, and were not before."""
        return {one.name for one in self.after} - {one.name for one in self.before}


def read_neighbours(data: dict[str, Any] | None, name: str | None) -> Neighbours | None:
    """The neighbors of the named row, or of the first; None where none are stored."""
    if data is None or not data["of"]:
        return None
    by_name = {one["name"]: one for one in reversed(data["of"])}
    names = list(dict.fromkeys(one["name"] for one in data["of"]))
    chosen = name if name is not None and name in by_name else names[0]
    similarity = Similarity(data.get("similarity", Similarity.COSINE))
    before, after = (
        [Neighbour(each["name"], each[similarity.value]) for each in by_name[chosen][side]]
        for side in ("before", "after")
    )
    unknown = name if name and name != chosen else ""
    return Neighbours(
        names, chosen, unknown, data["rows"], described(data["method"], data["parameters"]), before, after, similarity
    )


def with_lookup(found: Neighbours | None, context: Context, embedding: Embedding) -> Neighbours | None:
    """The same where the name is among those of the report; else what is known of its look-up among all rows."""
    if found is None or not found.unknown:
        return found
    lookup = find_lookup(context, embedding, found.unknown)
    shown = read_neighbours(lookup.results, None) if lookup else None
    return (shown or found)._replace(names=found.names, lookup=lookup)


class NearText(NamedTuple):
    """A text whose nearest rows were asked for; or why that cannot be asked."""

    text: str
    reason: str
    lookup: Lookup | None
    """None if nobody asked for the text."""

    @property
    def waiting(self) -> bool:
        """Whether a worker still has to look the text up."""
        return self.lookup is not None and self.lookup.waiting

    @property
    def found(self) -> Neighbours | None:
        """The nearest rows, once there are any."""
        return None if self.lookup is None else read_neighbours(self.lookup.results, None)

    @property
    def places(self) -> list[int]:
        """The places in the file of the rows nearest to it as the vectors are."""
        results = None if self.lookup is None else self.lookup.results
        return [one["row"] for one in results["of"][0]["before"]] if results else []


def near_text(context: Context, embedding: Embedding, text: str) -> NearText:
    """Return what is known of the rows nearest to a text."""
    reason = why_no_text(embedding)
    asked = bool(text) and not reason
    return NearText(text, reason, find_lookup(context, embedding, text, by_text=True) if asked else None)


def _at(found: list[Neighbour], place: int) -> Neighbour | None:
    return found[place] if place < len(found) else None
