"""Alignments of embeddings of the same rows: row matching, requests, results, and how far each row moves."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import hypot
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import undefer

from app.context import Context
from app.core.evidence import block_degrees, t_quantile
from app.db import job_kinds
from app.db.models import Alignment, Embedding, ResultStatus, RowsBy
from app.embeddings.comparison import BaselineChoice, Pairing, find_pairing, list_rows_left_out, pair_with_baselines
from app.embeddings.service import request_result
from isoscope.core.errors import ConflictError, InvalidError
from isotropy.catalog import ALIGNMENTS, AlignmentEntry

PAIRINGS_IN_SAME_ORDER = (Pairing.PAIRED, Pairing.OTHER_BLOCKS, Pairing.UNKNOWN_BLOCKS)
PAIRING_TEXTS = {
    RowsBy.NAME: "paired by name",
    RowsBy.POSITION: "paired by their place in the file",
    RowsBy.ORDER: "paired in order",
}
Pair = tuple[Embedding, Embedding]
"""A baseline and the embedding that is compared with it."""


class AlignmentValue(NamedTuple):
    """An alignment measure of two embeddings, with its 95% interval if it has one."""

    measure: AlignmentEntry
    value: float | None
    se: float | None
    low: float | None
    high: float | None
    reason: str | None


class AlignedPair(NamedTuple):
    """Two embeddings, how their rows are paired, and the alignment if it was requested."""

    baseline: Embedding
    embedding: Embedding
    rows_by: RowsBy
    status: ResultStatus | None = None
    """None before the first request."""
    error: str | None = None
    shared: int | None = None
    """Number of rows that both have."""
    rows: int | None = None
    """Number of those that were compared."""
    values: Sequence[AlignmentValue] = ()
    upgrade: Mapping[str, Any] | None = None
    """Whether queries can be mapped between the two models or rows must be embedded again; None if not computed."""

    @property
    def pairing_text(self) -> str:
        return PAIRING_TEXTS[self.rows_by]


def find_row_matching(embedding: Embedding, counterpart: Embedding) -> RowsBy | None:
    """Choose how to match the rows of two embeddings; None if they cannot be matched.

    Embeddings without names for their rows match only if their files have equal numbers of rows.
    """
    if find_pairing(embedding, counterpart, [embedding, counterpart]) in PAIRINGS_IN_SAME_ORDER:
        return RowsBy.ORDER
    # The files also hold the rows that were left out.
    file_sizes = {(side.n or 0) + len(list_rows_left_out(side)) for side in (embedding, counterpart)}
    if len(file_sizes) == 1 and embedding.files and _get_file_key(embedding) == _get_file_key(counterpart):
        return RowsBy.POSITION
    if all((side.selection or {}).get("names") for side in (embedding, counterpart)):
        return RowsBy.NAME
    if len(file_sizes) > 1:
        return None
    return RowsBy.ORDER if list_rows_left_out(embedding) == list_rows_left_out(counterpart) else RowsBy.POSITION


def pair_steps(embeddings: Sequence[Embedding]) -> list[Pair]:
    """Pair each embedding with its predecessor, and each from the third on also with the first."""
    return [
        *pair_with_baselines(embeddings, BaselineChoice.PREVIOUS),
        *pair_with_baselines(embeddings, BaselineChoice.FIRST)[1:],
    ]


def arrange_steps(embeddings: Sequence[Embedding], alignments: Sequence[AlignedPair]) -> list[list[AlignedPair | None]]:
    """Return the alignments of each step but the first with the previous and with the first; None without common rows.

    They are of the pairs from ``pair_steps``.
    """
    aligned = {(pair.baseline.id, pair.embedding.id): pair for pair in alignments}
    return [
        [aligned.get((baseline.id, embedding.id)) for baseline, embedding in pair_with_baselines(embeddings, choice)]
        for choice in (BaselineChoice.PREVIOUS, BaselineChoice.FIRST)
    ]


def find_alignments(context: Context, pairs: Sequence[Pair]) -> list[AlignedPair]:
    """Return the stored alignments of pairs of embeddings. Leave out pairs whose rows cannot be matched."""
    return _read_aligned(pairs, _load_alignments(context, pairs))


def _read_aligned(pairs: Sequence[Pair], alignments: Mapping[tuple[str, str], Alignment]) -> list[AlignedPair]:
    """Combine pairs with their stored alignments. Leave out pairs whose rows cannot be matched."""
    aligned = []
    for baseline, embedding in pairs:
        if (matching := find_row_matching(baseline, embedding)) is None:
            continue
        if (alignment := alignments.get(_sort_ids(baseline, embedding))) is None:
            aligned.append(AlignedPair(baseline, embedding, matching))
            continue
        results = alignment.results or {}
        values = []
        for slug, measure in ALIGNMENTS.items():
            if score := results.get("scores", {}).get(slug):
                value, se, low, high = score["value"], None, None, None
                if value is not None and len(score["parts"]) >= 2:
                    se = hypot(*score["parts"])
                    half_width = t_quantile(p=0.05, degrees=block_degrees(len(score["parts"]))) * se
                    minimum, maximum = measure.bounds
                    low, high = max(value - half_width, minimum), min(value + half_width, maximum)
                values.append(AlignmentValue(measure, value, se, low, high, score["reason"]))
        # The stored alignment has an upgrade in each direction.
        upgrades = dict(zip((alignment.embedding_id, alignment.other_id), results.get("upgrades", ()), strict=False))
        aligned.append(
            AlignedPair(
                baseline,
                embedding,
                alignment.rows_by,
                alignment.status,
                alignment.error,
                shared=results.get("shared"),
                rows=results.get("rows"),
                values=values,
                upgrade=upgrades.get(baseline.id),
            )
        )
    return aligned


def request_alignments(context: Context, pairs: Sequence[Pair]) -> list[AlignedPair]:
    """Queue the alignments that are missing or failed. Raise InvalidError if no pair's rows can be matched."""
    stored_alignments = _load_alignments(context, pairs)
    aligned = _read_aligned(pairs, stored_alignments)
    if not aligned:
        raise InvalidError(
            "These embeddings have no rows in common. "
            "Choose some with named rows, or whose files have equal numbers of rows.",
            "id",
        )
    for pair in aligned:
        ids = _sort_ids(pair.baseline, pair.embedding)
        new_alignment = Alignment(embedding_id=ids[0], other_id=ids[1], rows_by=pair.rows_by)
        request_result(context, job_kinds.ALIGN, stored_alignments.get(ids), new_alignment)
    requested = find_alignments(context, pairs)
    if any(pair.status is None for pair in requested):
        raise ConflictError("One of these embeddings was just deleted or changed. Try again.")
    return requested


def _load_alignments(
    context: Context, pairs: Sequence[Pair], *, with_movement: bool = False
) -> dict[tuple[str, str], Alignment]:
    """Return the stored alignments by their two ids, sorted. Load how far each row moves only if ``with_movement``."""
    ids = {embedding.id for pair in pairs for embedding in pair}
    statement = select(Alignment).where(Alignment.embedding_id.in_(ids), Alignment.other_id.in_(ids))
    options = [undefer(Alignment.moved)] if with_movement else []
    with context.sessions() as session:
        return {
            (alignment.embedding_id, alignment.other_id): alignment
            for alignment in session.scalars(statement.options(*options))
        }


def _sort_ids(embedding: Embedding, counterpart: Embedding) -> tuple[str, str]:
    """Return the ids of two embeddings in the order that an alignment stores."""
    return min(embedding.id, counterpart.id), max(embedding.id, counterpart.id)


def _get_file_key(embedding: Embedding) -> tuple[object, ...]:
    """Return a key that two embeddings share if each position is the same row of the same files in both."""
    selection = embedding.selection or {}
    vectors = selection.get("vectors")
    # After transposing, the rows are the selected columns.
    columns = tuple(vectors) if selection.get("transpose") and isinstance(vectors, list) else ()
    return bool(selection.get("transpose")), columns, *(shard.file_sha256 for shard in embedding.shards)


class MovedBy(StrEnum):
    """The measure of movement that rows are sorted by."""

    NEIGHBORS = "neighbors"
    RESIDUAL = "residual"


class MovedRow(NamedTuple):
    """A row that both embeddings have."""

    row: int
    """Its position in the file of the first embedding."""
    other_row: int
    """Its position in the file of the second embedding."""
    name: str
    neighbors_kept: float
    """Share of its 10 nearest neighbors that are the same in both, in [0, 1]."""
    residual: float | None
    """Distance between its two vectors after the best rotation, as a multiple of the typical norm; None if unknown."""


class MovedRows(NamedTuple):
    """How far each row moves between two embeddings."""

    pair: AlignedPair
    rows: list[MovedRow]
    references: int  # Number of rows among which neighbors were searched
    reason: str  # Why there are no rows or no residuals; else empty

    @property
    def has_residuals(self) -> bool:
        return bool(self.rows) and self.rows[0].residual is not None

    def rows_by_movement(self, by: MovedBy) -> list[MovedRow]:
        """Return the rows, those that moved most first: by residual if asked for and known, else by neighbors kept."""
        if by is MovedBy.RESIDUAL and self.has_residuals:
            return sorted(self.rows, key=lambda row: row.residual or 0.0, reverse=True)
        return sorted(self.rows, key=lambda row: (row.neighbors_kept, -(row.residual or 0.0)))


def find_moved_rows(context: Context, first: Embedding, counterpart: Embedding) -> MovedRows:
    """Return how far each row moves; no rows until that is computed. Raise InvalidError if they cannot be matched."""
    pairs = [(first, counterpart)]
    alignments = _load_alignments(context, pairs, with_movement=True)
    aligned = _read_aligned(pairs, alignments)
    if not aligned:
        raise InvalidError(f"{first.name} and {counterpart.name} have no rows in common.", "id")
    alignment = alignments.get(_sort_ids(first, counterpart))
    if alignment is None or (moved := alignment.moved) is None:
        return MovedRows(aligned[0], [], 0, "")
    neighbors_kept, residual, names = moved["kept"] or [], moved["residual"], moved["names"]
    rows, other_rows = moved["rows"], moved["other_rows"]
    if alignment.embedding_id != first.id:
        rows, other_rows = other_rows, rows
    columns = (
        rows,
        other_rows,
        names or [""] * len(neighbors_kept),
        neighbors_kept,
        residual or [None] * len(neighbors_kept),
    )
    return MovedRows(aligned[0], list(map(MovedRow, *columns)), moved["references"], moved["reason"] or "")
