"""Sealed scores, openings and predictions of runs in an archive."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from app.db.models import ChoiceKind, Split
from app.db.predictions import MAX_ROWS, MAX_TEXT_BYTES, Predictions, read_column
from app.db.run_results import Reason
from app.db.types import Count, Number
from app.results.archive.records import PREDICTIONS_AT_ONCE, Id, Moment, Name, PredictionsRecord, Sha256
from isoscope.core.task import Metric, TaskKind
from isoscope.files.strict import Strict

MAX_OPENINGS = 10_000


class SealedScoreRecord(Strict):
    """Scores of a run on the test rows."""

    run: Id
    metrics: dict[Metric, Number | None]
    reasons: dict[Metric, Reason]
    n: Count
    rows_sha256: Sha256


class OpeningRecord(Strict):
    """A frozen choice of the experiment."""

    record_id: Id
    number: Count
    kind: ChoiceKind
    position: Count
    label: Reason
    note: Reason | None
    by: Name
    at: Moment
    rows_sha256: Sha256
    opened_before: Annotated[Count, Field(le=1_000_000)]


def split_predictions(run_id: str, predictions: Predictions, split: Split) -> Iterator[dict[str, Any]]:
    for start in range(0, len(predictions), PREDICTIONS_AT_ONCE):
        selected = slice(start, start + PREDICTIONS_AT_ONCE)
        predicted = predictions.predicted[selected]
        yield {
            "run": run_id,
            "split": split.value,
            "rows": predictions.rows[selected].tolist(),
            "reference": _slice_to_list(predictions.reference, selected),
            "predicted": list(predicted) if isinstance(predicted, tuple) else predicted.tolist(),
            "exact_match": _slice_to_list(predictions.exact_match, selected),
            "f1": _slice_to_list(predictions.f1, selected),
        }


def join_predictions(records: Iterable[PredictionsRecord], task: TaskKind, split: Split) -> Predictions:
    """Join the records of one run, with at most one of them as Python lists in memory.

    Raises:
        ValueError: they cannot be predictions of one run of this task.

    """
    columns: dict[str, list[NDArray[Any]]] = {"reference": [], "predicted": [], "exact_match": [], "f1": []}
    rows: list[NDArray[np.int64]] = []
    texts: list[str] = []
    n = size = 0
    for record in records:
        if record.split is not split:
            raise ValueError(f"expected {split} as split, got {record.split}")
        n += len(record.rows)
        size += sum(len(text) for text in record.predicted if isinstance(text, str))
        if n > MAX_ROWS or size > MAX_TEXT_BYTES:
            raise ValueError(f"expected at most {MAX_ROWS:,} rows and {MAX_TEXT_BYTES:,} bytes of answers of a run")
        rows.append(np.array(record.rows, dtype=np.int64))
        if task is TaskKind.SPAN:
            if any(not isinstance(value, str) for value in record.predicted):
                raise ValueError("expected answers as text, got numbers")
            texts.extend(map(str, record.predicted))
        for name, column in columns.items():
            if (values := getattr(record, name)) is not None and (name != "predicted" or task is not TaskKind.SPAN):
                column.append(read_column(values, task))
    reference, predicted, exact_match, f1 = (np.concatenate(arrays) if arrays else None for arrays in columns.values())
    predictions = tuple(texts) if task is TaskKind.SPAN else predicted
    if predictions is None:
        raise ValueError("expected predictions")
    return Predictions(np.concatenate(rows), reference, predictions, exact_match, f1)


def _slice_to_list(column: NDArray[Any] | None, selected: slice) -> list[Any] | None:
    return None if column is None else column[selected].tolist()
