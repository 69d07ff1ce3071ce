"""Predictions that a user's script logs by row."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from app.context import Context
from app.db.models import Run, Split
from app.db.predictions import Predictions, read_column, read_predictions, write_predictions
from app.db.types import Count, Number
from app.results.logged_runs import lock_streaming_run
from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.core.formatting import capitalized, count
from isoscope.core.task import TaskKind
from isoscope.files.strict import Strict

ROWS_AT_ONCE = 10_000  # in a request
MAX_ROWS = 200_000  # of a run
MAX_ANSWER_CHARACTERS = 10_000


class LoggedPredictions(Strict):
    """Predictions for some validation rows. A row that is logged again is replaced."""

    rows: list[Count] = Field(
        min_length=1,
        max_length=ROWS_AT_ONCE,
        description="Positions in the validation rows, from 0, the same for every run of the experiment.",
    )
    reference: list[Number] | None = Field(
        None, description="True classes as whole numbers, or true numbers; none for answers."
    )
    predicted: list[Number] | list[str] = Field(description="Classes as whole numbers, numbers, or answers.")
    exact_match: list[Number] | None = Field(None, description="For answers: 1 if it matches exactly, else 0.")
    f1: list[Number] | None = Field(None, description="For answers: F1 of the words, from 0 to 1.")

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        n = len(self.rows)
        if len(set(self.rows)) < n:
            raise ValueError("expected every row once, got one twice; in rows")
        for name in ("reference", "predicted", "exact_match", "f1"):
            column = getattr(self, name)
            if column is not None and len(column) != n:
                raise ValueError(f"expected {count(n)} values in {name}, as many as rows, got {count(len(column))}")
        return self


def log_predictions(context: Context, run_id: str, request: LoggedPredictions) -> Run:
    """Store predictions of a script's run, in place of earlier ones for the same rows."""
    with context.sessions.begin() as session:
        run = lock_streaming_run(session, run_id)
        stored = read_predictions(session, [run_id], Split.VALIDATION).get(run_id)
        predictions = _merge_predictions(stored, _predictions_from_request(request, run.config.task))
        if len(predictions) > MAX_ROWS:
            raise TooLargeError(
                f"Expected predictions for at most {count(MAX_ROWS)} rows, got {count(len(predictions))}. Log a fixed "
                "part of them, the same for every run.",
                "rows",
            )
        write_predictions(session, run_id, Split.VALIDATION, predictions)
    return run


def _predictions_from_request(request: LoggedPredictions, task: TaskKind) -> Predictions:
    order = np.argsort(request.rows)
    rows = np.array(request.rows, dtype=np.int64)[order]
    try:
        if task is not TaskKind.SPAN:
            if request.exact_match is not None or request.f1 is not None:
                raise ValueError("expected exact_match and f1 only with answers")
            reference = None if request.reference is None else read_column(request.reference, task)[order]
            return Predictions(rows, reference, read_column(request.predicted, task)[order])
        if request.reference is not None:
            raise ValueError("expected answers without a reference column")
        texts = [text for text in request.predicted if isinstance(text, str)]
        if len(texts) < len(request.predicted):
            raise ValueError("expected answers as text, got numbers")
        if max(map(len, texts)) > MAX_ANSWER_CHARACTERS:
            raise ValueError(f"expected answers of at most {count(MAX_ANSWER_CHARACTERS)} characters, got a longer one")
        columns = (request.exact_match, request.f1)
        scores = (None if column is None else np.array(column, dtype=np.float64)[order] for column in columns)
        return Predictions(rows, None, tuple(texts[index] for index in order.tolist()), *scores)
    except ValueError as error:
        raise InvalidError(f"{capitalized(str(error))}, for a run of {task}.", "predicted") from None


def _merge_predictions(stored: Predictions | None, new: Predictions) -> Predictions:
    if stored is None:
        return new
    # New rows come first, because np.unique returns the index of the first of equal rows.
    rows, first_indices = np.unique(np.concatenate([new.rows, stored.rows]), return_index=True)

    def merge(new_column: NDArray[Any] | None, stored_column: NDArray[Any] | None) -> NDArray[Any] | None:
        if new_column is None or stored_column is None:
            return None
        return np.concatenate([new_column, stored_column])[first_indices]

    if isinstance(new.predicted, tuple) and isinstance(stored.predicted, tuple):
        texts = (*new.predicted, *stored.predicted)
        scores = (merge(new.exact_match, stored.exact_match), merge(new.f1, stored.f1))
        return Predictions(rows, None, tuple(texts[index] for index in first_indices.tolist()), *scores)
    if isinstance(new.predicted, tuple) or isinstance(stored.predicted, tuple):
        raise InvalidError("Expected predictions of one kind of task in a run.", "predicted")
    predicted = np.concatenate([new.predicted, stored.predicted])[first_indices]
    return Predictions(rows, merge(new.reference, stored.reference), predicted)
