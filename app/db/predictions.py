"""Predictions of a run for each row of a split: in memory, as packed bytes, and in the database."""

import struct
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.models import RunPredictions, Split
from isoscope.core.task import TaskKind

MAX_ROWS = 1_000_000
# UTF-8 bytes of all answers of one split.
MAX_TEXT_BYTES = 64 * 2**20
# JSON may hold a class as a float. Floats are exact for whole numbers up to this one.
MAX_CLASS = 2**53
# Maximum ids in one query, within the limits of both databases.
RUNS_AT_ONCE = 500
# Predicted numbers count as equal up to this relative difference, because rounding depends on the batch.
EQUAL_TOLERANCE = 1e-6

MAGIC = b"ISP1"
# Magic, index of the kind, number of rows. The columns follow, little-endian and compressed by zlib.
HEADER = struct.Struct("<4sBQ")
# The header stores an index in this tuple: never reorder.
KINDS = (TaskKind.CLASSIFICATION, TaskKind.REGRESSION, TaskKind.SPAN)
INT, FLOAT = np.dtype("<i8"), np.dtype("<f8")
WORD_BYTES = 8

Integers = NDArray[np.int64]
Numbers = NDArray[np.float64]
Texts = tuple[str, ...]


def read_column(values: Sequence[Any], task: TaskKind) -> Integers | Numbers:
    """Return numbers that a request sent as a column [n]: classes as int64, others as float64. Raises ValueError."""
    _require(not any(isinstance(value, str) for value in values), "expected numbers, got text")
    if task is not TaskKind.CLASSIFICATION:
        return np.array(values, dtype=FLOAT)
    _require(not any(value % 1 for value in values), "expected classes as whole numbers, got fractions")
    _require(max(map(abs, values), default=0) <= MAX_CLASS, f"expected classes up to {MAX_CLASS:,}, got a larger one")
    return np.array(values, dtype=INT)


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of one run for each row of one split, in the order of the rows.

    Runs on one data set share row numbers, so they can be paired by row. Raises ValueError if columns differ in length
    or type, rows do not ascend, numbers are not finite, or limits are exceeded.
    """

    # [n], positions of the rows in the split, ascending. For spans, a row is a question.
    rows: Integers
    # [n], correct classes, as indices in ``label_names``, or correct numbers; None for spans.
    reference: Integers | Numbers | None
    # [n], predicted classes, numbers, or answers.
    predicted: Integers | Numbers | Texts
    # [n], scores of each answer in [0, 1]; for spans only.
    exact_match: Numbers | None = None
    f1: Numbers | None = None

    def __post_init__(self) -> None:
        _require(0 < len(self.rows) <= MAX_ROWS, f"expected 1 to {MAX_ROWS:,} rows, got {len(self.rows):,}")
        columns = [self.rows, *(column for column in self._numeric_columns if column is not None)]
        lengths = sorted({len(column) for column in (*columns, self.predicted)})
        _require(len(lengths) == 1, f"expected columns of one length, got lengths {lengths}")
        for column in columns:
            _require(column.ndim == 1 and column.dtype in (INT, FLOAT), "expected columns of int64 or float64")
            _require(bool(np.isfinite(column).all()), "expected finite numbers, got NaN or infinity")
        _require(self.rows.dtype == INT, "expected row numbers as int64")
        _require(bool(self.rows[0] >= 0 and (np.diff(self.rows) > 0).all()), "expected ascending row numbers from 0")
        if isinstance(self.predicted, tuple):
            scores = (self.exact_match, self.f1)
            _require(self.reference is None, "expected answers without a reference column")
            float_scores = [score for score in scores if score is not None and score.dtype == FLOAT]
            _require(len(float_scores) == len(scores), "expected exact_match and f1 with answers, as float64")
            _require(
                all(bool(((score >= 0) & (score <= 1)).all()) for score in float_scores), "expected scores from 0 to 1"
            )
        else:
            _require(self.reference is not None, "expected a reference for each prediction")
            types_match = self.reference is not None and self.reference.dtype == self.predicted.dtype
            _require(types_match, "expected references of the same type as predictions")
            _require(self.exact_match is None and self.f1 is None, "expected exact_match and f1 only with answers")

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def kind(self) -> TaskKind:
        if isinstance(self.predicted, tuple):
            return TaskKind.SPAN
        return TaskKind.CLASSIFICATION if self.predicted.dtype == INT else TaskKind.REGRESSION

    @property
    def constant(self) -> int | float | str | None:
        """Return the prediction that all rows share; None if they differ."""
        if isinstance(self.predicted, tuple):
            return self.predicted[0] if len(set(self.predicted)) == 1 else None
        low, high = self.predicted.min(), self.predicted.max()
        tolerance = 0.0 if self.kind is TaskKind.CLASSIFICATION else EQUAL_TOLERANCE * max(abs(low), abs(high))
        value: int | float | None = self.predicted[0].item() if high - low <= tolerance else None
        return value

    @property
    def largest_share(self) -> float:
        """Return the share of rows with the most frequent prediction."""
        if self.constant is not None:
            return 1.0
        if isinstance(self.predicted, tuple):
            return Counter(self.predicted).most_common(1)[0][1] / len(self)
        return float(np.unique(self.predicted, return_counts=True)[1].max() / len(self))

    def pack(self) -> bytes:
        """Return the bytes from which ``unpack`` restores these predictions."""
        row_gaps = np.diff(self.rows, prepend=0)
        if isinstance(self.predicted, tuple):
            texts = [text.encode(errors="replace") for text in self.predicted]  # a lone surrogate cannot be encoded
            lengths = np.array([len(text) for text in texts], dtype=INT)
            _require(int(lengths.sum()) <= MAX_TEXT_BYTES, f"expected answers of at most {MAX_TEXT_BYTES:,} bytes")
            columns, packed_texts = [row_gaps, self.exact_match, self.f1, lengths], b"".join(texts)
        else:
            columns, packed_texts = [row_gaps, self.reference, self.predicted], b""
        present = [column for column in columns if column is not None]
        body = b"".join(column.astype(column.dtype.newbyteorder("<")).tobytes() for column in present) + packed_texts
        return HEADER.pack(MAGIC, KINDS.index(self.kind), len(self)) + zlib.compress(body, 9)

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Read predictions that ``pack`` wrote. Raise ValueError for other bytes, or if they exceed the limits."""
        _require(len(data) >= HEADER.size, "expected packed predictions, got too few bytes")
        magic, kind_index, n = HEADER.unpack_from(data)
        _require(magic == MAGIC and kind_index < len(KINDS), "expected packed predictions, got something else")
        _require(0 < n <= MAX_ROWS, f"expected 1 to {MAX_ROWS:,} rows, got {n:,}")
        kind = KINDS[kind_index]
        column_types: tuple[np.dtype[Any], ...] = {
            TaskKind.CLASSIFICATION: (INT, INT, INT),
            TaskKind.REGRESSION: (INT, FLOAT, FLOAT),
            TaskKind.SPAN: (INT, FLOAT, FLOAT, INT),
        }[kind]
        column_bytes = len(column_types) * n * WORD_BYTES
        max_bytes = column_bytes + (MAX_TEXT_BYTES if kind is TaskKind.SPAN else 0)
        stream = zlib.decompressobj()
        try:
            body = stream.decompress(data[HEADER.size :], max_bytes + 1)
        except zlib.error:
            raise ValueError("the packed predictions are damaged") from None
        _require(len(body) <= max_bytes, "the packed predictions unpack to more than they may")
        _require(
            stream.eof and not stream.unused_data, "the packed predictions are cut off, or followed by other bytes"
        )
        _require(len(body) >= column_bytes, "the packed predictions are cut off")
        row_gaps, *columns = (
            np.frombuffer(body, dtype, n, index * n * WORD_BYTES).astype(dtype.newbyteorder("="))
            for index, dtype in enumerate(column_types)
        )
        max_gap = 2**53 // n  # so that the sum of all gaps cannot overflow
        _require(bool(((row_gaps >= 0) & (row_gaps <= max_gap)).all()), "expected ascending row numbers from 0")
        rows = np.cumsum(row_gaps)
        if kind is not TaskKind.SPAN:
            _require(len(body) == column_bytes, "expected nothing after the packed predictions")
            return cls(rows, *columns)
        (exact_match, f1, lengths), texts = columns, body[column_bytes:]
        _require(bool(((lengths >= 0) & (lengths <= len(texts))).all()), "expected lengths of texts within the bytes")
        ends = np.cumsum(lengths)
        _require(int(ends[-1]) == len(texts), "expected texts as long as their lengths say")
        spans = zip(ends.tolist(), lengths.tolist(), strict=True)
        return cls(rows, None, tuple(texts[end - length : end].decode() for end, length in spans), exact_match, f1)

    @property
    def _numeric_columns(self) -> list[NDArray[Any] | None]:
        predicted = None if isinstance(self.predicted, tuple) else self.predicted
        return [self.reference, predicted, self.exact_match, self.f1]


def write_predictions(session: Session, run_id: str, split: Split, predictions: Predictions) -> None:
    """Store a run's predictions on a split, replacing earlier ones."""
    session.merge(RunPredictions(run_id=run_id, split=split, n=len(predictions), data=predictions.pack()))


def read_predictions(session: Session, run_ids: Sequence[str], split: Split) -> dict[str, Predictions]:
    """Return predictions on a split by run id, with one query per 500 runs."""
    predictions: dict[str, Predictions] = {}
    query = select(RunPredictions.run_id, RunPredictions.data).where(RunPredictions.split == split)
    for start in range(0, len(run_ids), RUNS_AT_ONCE):
        batch = query.where(RunPredictions.run_id.in_(run_ids[start : start + RUNS_AT_ONCE]))
        predictions |= {run_id: Predictions.unpack(data) for run_id, data in session.execute(batch)}
    return predictions


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
