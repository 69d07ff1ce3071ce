"""How alike embeddings of the same rows are, asked for and read: which rows belong together, how far each moves."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import hypot
from statistics import median
from typing import Any, NamedTuple, Self

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import undefer

from app.context import Context
from app.core.evidence import block_degrees, quantile
from app.db import job_kinds
from app.db.job_kinds import Job
from app.db.models import Alignment, Embedding, ResultStatus, RowsBy
from app.embeddings.comparison import Against, Pairing, bases_of, pairing, rows_left_out
from app.embeddings.service import repeat_failed
from app.figures.figure import Columns, Table
from isoscope.core.errors import ConflictError, InvalidError
from isotropy.catalog import ALIGNMENTS, AlignmentEntry

SAME_ORDER = (Pairing.PAIRED, Pairing.OTHER_BLOCKS, Pairing.UNKNOWN_BLOCKS)
WORDS = {
    RowsBy.NAME: "paired by name",
    RowsBy.PLACE: "paired by their place in the file",
    RowsBy.ORDER: "paired in order",
}


class AlignmentValue(NamedTuple):
    """One measure of two embeddings, with its 95% interval where it has one."""

    measure: AlignmentEntry
    value: float | None
    se: float | None
    low: float | None
    high: float | None
    reason: str | None


class Aligned(NamedTuple):
    """An embedding beside another: how rows are paired, and what came of it once somebody asked."""

    base: Embedding
    embedding: Embedding
    rows_by: RowsBy
    status: ResultStatus | None
    """None where nobody asked yet."""
    error: str | None
    shared: int | None
    rows: int | None
    values: list[AlignmentValue]

    def value(self, measure: str) -> AlignmentValue | None:
        """What was found of a measure, by its slug."""
        return next((one for one in self.values if one.measure.slug == measure), None)

    @property
    def words(self) -> str:
        """How the rows were found."""
        return WORDS[self.rows_by]


def rows_by(one: Embedding, other: Embedding) -> RowsBy | None:
    """Return how the same rows of two embeddings are found; None where they cannot be known.

    Arrays of one file, and files, are of the same rows where all rows of both, left out or not, are as many.
    """
    if pairing(one, other, [one, other]) in SAME_ORDER:
        return RowsBy.ORDER
    as_many = _rows_of_file(one) == _rows_of_file(other)
    if as_many and one.files and _file_of(one) == _file_of(other):
        return RowsBy.PLACE
    if all((each.selection or {}).get("names") for each in (one, other)):
        return RowsBy.NAME
    if not as_many:
        return None
    return RowsBy.ORDER if rows_left_out(one) == rows_left_out(other) else RowsBy.PLACE


Pair = tuple[Embedding, Embedding]
"""An embedding and the one that it is compared with, which comes first."""


def pairs_of(embeddings: Sequence[Embedding], against: Against) -> list[Pair]:
    """Return each embedding but the first behind what it is compared with."""
    return list(zip(bases_of(embeddings, against), embeddings[1:], strict=True))


def alignments_of(context: Context, pairs: Sequence[Pair]) -> list[Aligned]:
    """Return what is known of each pair of embeddings; those without rows in common are left out."""
    return _all_aligned(pairs, _find_alignments(context, pairs))


def _all_aligned(pairs: Sequence[Pair], found: Mapping[tuple[str, str], Alignment]) -> list[Aligned]:
    """Return what the alignments found say of each pair; those without rows in common are left out."""
    told = ((base, one, rows_by(base, one), found.get(_ids_of(base, one))) for base, one in pairs)
    return [_aligned(base, one, by, row) for base, one, by, row in told if by is not None]


def request_alignments(context: Context, pairs: Sequence[Pair]) -> list[Aligned]:
    """Have each pair of embeddings compared row by row, unless it was already; a failed one again."""
    found = _find_alignments(context, pairs)
    known = _all_aligned(pairs, found)
    if not known:
        raise InvalidError(
            "These embeddings have no rows in common. "
            "Choose some with named rows, or whose files have equal numbers of rows.",
            "id",
        )
    for one in known:
        row = found.get(_ids_of(one.base, one.embedding))
        if row is None:
            _add(context, one)
        elif row.status is ResultStatus.FAILED:
            repeat_failed(context, Alignment, Job(job_kinds.ALIGN, row.id))
    asked = alignments_of(context, pairs)
    if any(one.status is None for one in asked):
        raise ConflictError("One of these embeddings was just deleted or changed. Try again.")
    return asked


def _add(context: Context, one: Aligned) -> None:
    embedding_id, other_id = _ids_of(one.base, one.embedding)
    asked = Alignment(embedding_id=embedding_id, other_id=other_id, rows_by=one.rows_by)
    try:
        with context.sessions.begin() as session:
            session.add(asked)
    except IntegrityError:
        return  # the same was asked for, or an embedding deleted, at this moment: a look will tell
    context.queue.enqueue(Job(job_kinds.ALIGN, asked.id))


def _find_alignments(
    context: Context, pairs: Sequence[Pair], *, with_rows: bool = False
) -> dict[tuple[str, str], Alignment]:
    """Return the alignments of pairs by ``_ids_of``; how far each row moves only with ``with_rows``."""
    ids = {one.id for pair in pairs for one in pair}
    both = select(Alignment).where(Alignment.embedding_id.in_(ids), Alignment.other_id.in_(ids))
    options = [undefer(Alignment.moved)] if with_rows else []
    with context.sessions() as session:
        return {(one.embedding_id, one.other_id): one for one in session.scalars(both.options(*options))}


def _ids_of(one: Embedding, other: Embedding) -> tuple[str, str]:
    """Return the ids of two embeddings in the order in which an alignment has them."""
    first, second = sorted((one.id, other.id))
    return first, second


def _file_of(one: Embedding) -> tuple[object, ...]:
    """What is equal for embeddings whose rows have places in the same files."""
    selection = one.selection or {}
    vectors = selection.get("vectors")
    # Where columns are the rows, those that were chosen say which.
    columns = tuple(vectors) if selection.get("transpose") and isinstance(vectors, list) else ()
    return bool(selection.get("transpose")), columns, *(shard.file_sha256 for shard in one.shards)


def _rows_of_file(one: Embedding) -> int:
    """Return how many rows there were before some were left out."""
    return (one.n or 0) + len(rows_left_out(one))


def _aligned(base: Embedding, embedding: Embedding, by: RowsBy, row: Alignment | None) -> Aligned:
    if row is None:
        return Aligned(base, embedding, by, None, None, None, None, [])
    results = row.results or {}
    values = [
        _value(measure, scores[slug]["value"], scores[slug]["parts"], scores[slug]["reason"])
        for slug, measure in ALIGNMENTS.items()
        if slug in (scores := results.get("scores", {}))
    ]
    told = results.get("shared"), results.get("rows"), values
    return Aligned(base, embedding, row.rows_by, row.status, row.error, *told)


def _value(measure: AlignmentEntry, value: float | None, parts: list[float], reason: str | None) -> AlignmentValue:
    if value is None or len(parts) < 2:
        return AlignmentValue(measure, value, None, None, None, reason)
    se = hypot(*parts)
    half = quantile(0.05, block_degrees(len(parts))) * se
    least, greatest = measure.bounds
    return AlignmentValue(measure, value, se, max(value - half, least), min(value + half, greatest), reason)


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
    found = _find_alignments(context, pairs, with_rows=True)
    known = _all_aligned(pairs, found)
    if not known:
        raise InvalidError(f"{first.name} and {other.name} have no rows in common.", "id")
    row = found.get(_ids_of(first, other))
    if row is None or row.moved is None:
        return MovedRows(known[0], [], 0, "")
    return MovedRows.from_moved(known[0], row.moved, swapped=row.embedding_id != first.id)


def table_of(rows: Sequence[MovedRow]) -> Table:
    """Return rows as a table."""
    columns = ["row", "other_row", "name", "neighbors_kept", "residual"]
    return (
        Table(columns, Columns(*(list(column) for column in zip(*rows, strict=True)))) if rows else Table(columns, [])
    )
