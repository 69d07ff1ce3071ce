"""Whether two embeddings hold the same rows, so that their difference has the error of pairs."""

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import Any

from app.db.models import Embedding


class Pairing(Enum):
    """How the rows of two embeddings belong together."""

    PAIRED = auto()
    OTHER_ORDER = auto()
    OTHER_BLOCKS = auto()
    UNKNOWN_BLOCKS = auto()
    INDEPENDENT = auto()


NOT_PAIRED = {
    Pairing.OTHER_ORDER: "in another order: sort both alike by name to have them paired",
    Pairing.OTHER_BLOCKS: "but other rows of them are duplicates, in groups or left out",
    Pairing.UNKNOWN_BLOCKS: "but an earlier version measured one of them: measure it again to have them paired",
}
"""Why the same rows cannot be paired."""


def pairing(one: Embedding, other: Embedding, among: Sequence[Embedding]) -> Pairing:
    """Return how the rows of two embeddings belong together.

    They are the same where one was made of the other or both of a third, where both are layers of one encoding or read
    from the same files, and where they have the same names in the same order.

    Args:
        one: an embedding.
        other: another.
        among: those through which one may have been made of the other.

    """
    by_id = {each.id: each for each in among}
    known = [each.independent or {} for each in (one, other)]
    if one.n != other.n:
        return Pairing.INDEPENDENT
    if not (_agree(known, "names") or set(_origins(one, by_id)) & set(_origins(other, by_id))):
        return Pairing.OTHER_ORDER if _agree(known, "names_in_any_order") else Pairing.INDEPENDENT
    if not all(known):
        return Pairing.UNKNOWN_BLOCKS
    alike = known[0]["blocks"] == known[1]["blocks"] and one.n_left_out == other.n_left_out
    return Pairing.PAIRED if alike else Pairing.OTHER_BLOCKS


def _agree(known: list[dict[str, Any]], name: str) -> bool:
    first, second = (told.get(name) for told in known)
    return first is not None and first == second


def _origins(one: Embedding, by_id: dict[str, Embedding]) -> Iterator[object]:
    """Yield what is equal for embeddings whose rows have one origin."""
    origin = one
    while origin.source_id is not None and origin.source_id in by_id:
        origin = by_id[origin.source_id]
    yield origin.encoding_id or origin.source_id or origin.id
    if one.files:
        yield bool((one.selection or {}).get("transpose")), *(file.file_sha256 for file in one.files)
