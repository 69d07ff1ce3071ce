"""Neighbors of a named row before and after a method, and neighbors of a new text (look-ups)."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.context import Context
from app.core.names import describe_method
from app.db import job_kinds
from app.db.models import Embedding, EmbeddingOrigin, Lookup
from app.db.models.embeddings import lookup_key
from app.embeddings.point_map import NamedRow, NearRow
from app.embeddings.service import deletion_of_oldest, find_embedding, get_embedding, request_result, require_ready
from isoscope.core.errors import InvalidError, NotFoundError
from isotropy.catalog import Similarity

MAX_LOOKUPS = 200  # Look-ups that are kept for each embedding. Older ones are deleted.
MAX_TEXT_CHARACTERS = 1000


class NamedNeighbor(NamedTuple):
    """The name of a neighbor, and its cosine, dot product or distance to the row, as the similarity says."""

    name: str
    nearness: float


class NamedNeighbors(NamedTuple):
    """The neighbors of a row before and after a method."""

    names: list[str]  # Names of all rows with stored neighbors
    chosen: str  # Name of the row whose neighbors these are
    unknown: str  # The requested name if no row of this name is stored, so that the first row was chosen; else empty
    rows: int  # Number of rows that were searched
    method: str
    before: list[NamedNeighbor]
    after: list[NamedNeighbor]
    similarity: Similarity = Similarity.COSINE

    @property
    def pairs(self) -> list[tuple[NamedNeighbor | None, NamedNeighbor | None]]:
        """Return both lists side by side, the nearest neighbors first."""
        return list(zip_longest(self.before, self.after))

    @property
    def names_before(self) -> set[str]:
        return {neighbor.name for neighbor in self.before}

    @property
    def kept_count(self) -> int:
        return len(self.names_before & {neighbor.name for neighbor in self.after})


def read_neighbors(data: dict[str, Any], name: str | None) -> NamedNeighbors | None:
    """Read the neighbors of the named row, or else of the first row, from stored figure data; None without rows."""
    if not data["of"]:
        return None
    entries_by_name = {entry["name"]: entry for entry in reversed(data["of"])}
    names = list(dict.fromkeys(entry["name"] for entry in data["of"]))
    chosen_name = name if name is not None and name in entries_by_name else names[0]
    similarity = Similarity(data.get("similarity", Similarity.COSINE))
    before, after = (
        [NamedNeighbor(neighbor["name"], neighbor[similarity.value]) for neighbor in entries_by_name[chosen_name][side]]
        for side in ("before", "after")
    )
    return NamedNeighbors(
        names=names,
        chosen=chosen_name,
        unknown=name if name and name != chosen_name else "",
        rows=data["rows"],
        method=describe_method(data["method"], data["parameters"]),
        before=before,
        after=after,
        similarity=similarity,
    )


class TextSearch(NamedTuple):
    """A text and its nearest rows, none before a worker has found them."""

    text: str
    reason: str  # Why texts cannot be looked up in this embedding; else empty
    lookup: Lookup | None = None  # None before the first request
    similarity: Similarity = Similarity.COSINE
    rows: int = 0  # Number of rows that were searched
    near: Sequence[NearRow] = ()


def explain_no_lookup(embedding: Embedding) -> str:
    """Return why a new text cannot be looked up in an embedding; empty if it can."""
    provenance, selection = embedding.provenance or {}, embedding.selection or {}
    if embedding.origin is not EmbeddingOrigin.ENCODED or "weights_sha256" not in provenance:
        return "These vectors were not encoded here, so Isoscope does not know which model to encode a new text with."
    if len(provenance["text_columns"]) > 1:
        return "The rows are pairs of texts, so a single text cannot be compared."
    if selection.get("transpose"):
        return "The rows are dimensions here, so a text cannot be compared with them."
    if selection.get("names") is None:
        return f"The rows of {embedding.name} have no names. Choose the names on its page."
    return ""


def find_text_search(context: Context, embedding: Embedding, text: str) -> TextSearch:
    """Return what is stored about a text, without requesting a look-up."""
    reason = explain_no_lookup(embedding)
    if not text or reason:
        return TextSearch(text, reason)
    with context.sessions() as session:
        lookup = _find_lookup(session, embedding, text)
    if lookup is None or not lookup.results:
        return TextSearch(text, reason, lookup)
    similarity = Similarity(lookup.results.get("similarity", Similarity.COSINE))
    neighbors = [
        NearRow(NamedRow(neighbor["row"], neighbor["name"]), neighbor[similarity.value])
        for neighbor in lookup.results["of"][0]["before"]
    ]
    return TextSearch(text, reason, lookup, similarity, lookup.results["rows"], neighbors)


def get_lookup(context: Context, embedding_id: str, text: str) -> Lookup:
    with context.sessions() as session:
        lookup = _find_lookup(session, find_embedding(session, embedding_id), text)
    if lookup is None:
        raise NotFoundError(f"Nobody has looked up {text!r} in this embedding yet.")
    return lookup


def request_lookup(context: Context, embedding_id: str, text: str) -> Lookup:
    """Queue a look-up of the rows nearest to a text, unless it exists. Retry it if it failed."""
    embedding = get_embedding(context, embedding_id)
    require_ready(embedding, "a look-up")
    if reason := explain_no_lookup(embedding):
        raise InvalidError(reason, "text")
    if not text.strip() or len(text) > MAX_TEXT_CHARACTERS:
        raise InvalidError(f"Give a text of 1 to {MAX_TEXT_CHARACTERS:,} characters.", "text")
    with context.sessions() as session:
        lookup = _find_lookup(session, embedding, text)
    new_lookup = Lookup(embedding_id=embedding.id, key=lookup_key(embedding, text), name=text)
    request_result(context, job_kinds.LOOKUP, lookup, new_lookup)
    if lookup is None:
        with context.sessions.begin() as session:
            session.execute(deletion_of_oldest(session, Lookup, embedding_id, MAX_LOOKUPS))
    return get_lookup(context, embedding_id, text)


def _find_lookup(session: Session, embedding: Embedding, text: str) -> Lookup | None:
    key = lookup_key(embedding, text)
    return session.scalar(select(Lookup).where(Lookup.embedding_id == embedding.id, Lookup.key == key))
