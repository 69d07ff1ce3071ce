"""Sealed scores and openings in an archive, and predictions as records of an archive."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from app.db.models import ChoiceKind, Split
from app.db.predictions import MAX_ROWS, MAX_TEXT_BYTES, Predictions, read_column
from app.db.run_results import Reason
from app.db.types import Count, Number
from app.results.archive.records import MAX_ROWS_PER_RECORD, Id, Moment, Name, PredictionsRecord, Sha256
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


def predictions_to_records(run_id: str, predictions: Predictions, split: Split) -> Iterator[dict[str, Any]]:
    """Yield the predictions of a run as values of ``PredictionsRecord``, a few thousand rows in each."""
    for start in range(0, len(predictions), MAX_ROWS_PER_RECORD):
        positions = slice(start, start + MAX_ROWS_PER_RECORD)
        predicted = predictions.predicted[positions]
        yield {
            "run": run_id,
            "split": split.value,
            "rows": predictions.rows[positions].tolist(),
            "reference": _slice_to_list(predictions.reference, positions),
            "predicted": list(predicted) if isinstance(predicted, tuple) else predicted.tolist(),
            "exact_match": _slice_to_list(predictions.exact_match, positions),
            "f1": _slice_to_list(predictions.f1, positions),
        }


def predictions_from_records(records: Iterable[PredictionsRecord], task: TaskKind, split: Split) -> Predictions:
    """Join the records of a run. Raise ValueError if they cannot be predictions of one run of this task."""
    arrays: dict[str, list[NDArray[Any]]] = {"reference": [], "predicted": [], "exact_match": [], "f1": []}
    numeric_columns = [name for name in arrays if name != "predicted" or task is not TaskKind.SPAN]
    rows: list[NDArray[np.int64]] = []
    answers: list[str] = []
    n_rows = n_bytes = 0
    for record in records:
        if record.split is not split:
            raise ValueError(f"expected {split} as split, got {record.split}")
        n_rows += len(record.rows)
        n_bytes += sum(len(value.encode()) for value in record.predicted if isinstance(value, str))
        if n_rows > MAX_ROWS or n_bytes > MAX_TEXT_BYTES:
            raise ValueError(f"expected at most {MAX_ROWS:,} rows and {MAX_TEXT_BYTES:,} bytes of answers of a run")
        rows.append(np.array(record.rows, dtype=np.int64))
        if task is TaskKind.SPAN:
            if any(not isinstance(value, str) for value in record.predicted):
                raise ValueError("expected answers as text, got numbers")
            answers.extend(map(str, record.predicted))
        for name in numeric_columns:
            if (values := getattr(record, name)) is not None:
                arrays[name].append(read_column(values, task))
    reference, numbers, exact_match, f1 = (np.concatenate(parts) if parts else None for parts in arrays.values())
    predicted = tuple(answers) if task is TaskKind.SPAN else numbers
    if predicted is None:
        raise ValueError("expected predictions")
    return Predictions(np.concatenate(rows), reference, predicted, exact_match, f1)


def _slice_to_list(column: NDArray[Any] | None, positions: slice) -> list[Any] | None:
    return None if column is None else column[positions].tolist()
