"""How far each row moves between two embeddings, as a worker found it: the rows that moved most, and all of them."""

from collections.abc import Sequence
from enum import StrEnum
from statistics import median
from typing import Any, NamedTuple, Self

from app.context import Context
from app.db.models import Embedding
from app.embeddings.alignments import Aligned, aligned, find_alignments, ids_of
from app.figures.figure import Columns, Table
from isoscope.core.errors import InvalidError


class MovedBy(StrEnum):
    """By what rows moved most."""

    NEIGHBORS = "neighbors"
    RESIDUAL = "residual"


class MovedRow(NamedTuple):
    """A row that both embeddings have."""

    row: int
    """Its place in the file of the first."""
    other_row: int
    """In that of the other."""
    name: str
    """Empty where it has none."""
    neighbors_kept: float
    """Share of its 10 nearest neighbors that are the same in both."""
    residual: float | None
    """Its distance to its place in the other after the best rotation, in typical row lengths."""

    @property
    def rank(self) -> tuple[float, float]:
        """By which it is ordered where neighbors count: few kept neighbors first, equal ones by the distance."""
        return self.neighbors_kept, -(self.residual or 0.0)


class MovedRows(NamedTuple):
    """What is known of the rows of two embeddings."""

    pair: Aligned
    rows: list[MovedRow]
    """All that were compared; none until a worker has."""
    references: int
    """Rows among which neighbors were sought."""
    reason: str
    """Why there are no residuals, or nothing at all; else empty."""

    @classmethod
    def from_moved(cls, pair: Aligned, moved: dict[str, Any], *, swapped: bool) -> Self:
        """Read what a worker found; ``swapped`` where the pair is named the other way round."""
        kept, residual, names = moved["kept"] or [], moved["residual"], moved["names"]
        here, there = moved["rows"], moved["other_rows"]
        here, there = (there, here) if swapped else (here, there)
        n = len(kept)
        rows = map(MovedRow, here, there, names or [""] * n, kept, residual or [None] * n)
        return cls(pair, list(rows), moved["references"], moved["reason"] or "")

    @property
    def has_residuals(self) -> bool:
        """Whether it is known how far rows moved, and not only how many neighbors they kept."""
        return bool(self.rows) and self.rows[0].residual is not None

    def most_moved(self, by: MovedBy) -> list[MovedRow]:
        """All rows, the one that moved most first."""
        if by is MovedBy.RESIDUAL and self.has_residuals:
            return sorted(self.rows, key=lambda one: one.residual or 0.0, reverse=True)
        return sorted(self.rows, key=lambda one: one.rank)

    @property
    def kept_none(self) -> int:
        """Rows that kept none of their neighbors."""
        return sum(one.neighbors_kept == 0 for one in self.rows)

    @property
    def kept_on_average(self) -> float:
        """Share of neighbors that rows keep on average."""
        return sum(one.neighbors_kept for one in self.rows) / max(len(self.rows), 1)

    @property
    def usual_residual(self) -> float | None:
        """The median of the residuals; None without any."""
        return median(one.residual or 0.0 for one in self.rows) if self.has_residuals else None


def moved_rows_of(context: Context, first: Embedding, other: Embedding) -> MovedRows:
    """Return how far rows move between two embeddings, as far as it is known.

    Raises:
        InvalidError: the two have no rows in common.

    """
    pairs = [(first, other)]
    found = find_alignments(context, pairs, with_rows=True)
    known = aligned(pairs, found)
    if not known:
        raise InvalidError(f"{first.name} and {other.name} have no rows in common.", "id")
    row = found.get(ids_of(first, other))
    if row is None or row.moved is None:
        return MovedRows(known[0], [], 0, "")
    return MovedRows.from_moved(known[0], row.moved, swapped=row.embedding_id != first.id)


def table_of(rows: Sequence[MovedRow]) -> Table:
    """Return rows as a table."""
    columns = ["row", "other_row", "name", "neighbors_kept", "residual"]
    return (
        Table(columns, Columns(*(list(column) for column in zip(*rows, strict=True)))) if rows else Table(columns, [])
    )
