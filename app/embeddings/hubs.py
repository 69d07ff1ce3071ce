"""The rows that are most often among the nearest neighbors of others, as a report lists them."""

from typing import NamedTuple

from app.db.models import Embedding
from app.embeddings.similarity import similarity_of
from isotropy.catalog import Similarity


class Hub(NamedTuple):
    """A row, and of how many others it is among the k nearest."""

    row: int
    """Place in the file, from 0."""
    name: str | None
    occurrences: int


class Hubs(NamedTuple):
    """The greatest hubs of an embedding, the greatest first."""

    hubs: list[Hub]
    k: int
    rows: int
    """Distinct rows whose neighbors were searched."""
    similarity: Similarity


def hubs_of(embedding: Embedding) -> Hubs | None:
    """Return the hubs of a report; None where an earlier version measured it, or hubness is undefined."""
    found = next((one for one in embedding.measurements if one.measure == "hubness"), None)
    if found is None or not found.detail or not found.detail.get("hubs"):
        return None
    return Hubs([Hub(**one) for one in found.detail["hubs"]], found.detail["k"], found.n, similarity_of(found))
