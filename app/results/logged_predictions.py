"""Predictions that a user's own script logs by row."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from app.context import Context
from app.db.models import Run, Split
from app.db.predictions import Predictions, read_predictions, write_predictions
from app.db.types import Count, Number
from app.results.logged_runs import hold_streaming
from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.core.formatting import capitalized, count
from isoscope.core.task import TaskKind
from isoscope.files.strict import Strict

ROWS_AT_ONCE = 10_000
MAX_ROWS = 200_000
MAX_ANSWER_CHARACTERS = 10_000


class LoggedPredictions(Strict):
    """Predictions for some validation rows; a row that is told again replaces what was told of it."""

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
    def _of_one_length(self) -> Self:
        n = len(self.rows)
        if len(set(self.rows)) < n:
            raise ValueError("expected every row once, got one twice; in rows")
        for name in ("reference", "predicted", "exact_match", "f1"):
            column = getattr(self, name)
            if column is not None and len(column) != n:
                raise ValueError(f"expected {count(n)} values in {name}, as many as rows, got {count(len(column))}")
        return self


def log_predictions(context: Context, run_id: str, told: LoggedPredictions) -> Run:
    """Add predictions to a run that its script writes."""
    with context.sessions.begin() as session:
        run = hold_streaming(session, run_id)
        stored = read_predictions(session, [run_id], Split.VALIDATION).get(run_id)
        found = _merged(stored, _read(told, run.config.task))
        if len(found) > MAX_ROWS:
            raise TooLargeError(
                f"Expected predictions for at most {count(MAX_ROWS)} rows, got {count(len(found))}. Log a fixed part "
                "of them, the same for every run.",
                "rows",
            )
        write_predictions(session, run_id, Split.VALIDATION, found)
    return run


def _read(told: LoggedPredictions, task: TaskKind) -> Predictions:
    order = np.argsort(told.rows)
    rows = np.array(told.rows, dtype=np.int64)[order]
    try:
        if task is not TaskKind.SPAN:
            if told.exact_match is not None or told.f1 is not None:
                raise ValueError("expected exact_match and f1 beside answers only")
            reference = None if told.reference is None else _values(told.reference, task, order)
            return Predictions(rows, reference, _values(told.predicted, task, order))
        if told.reference is not None:
            raise ValueError("expected answers without a reference column")
        texts = [_answer(text) for text in told.predicted]
        columns = (told.exact_match, told.f1)
        scores = (None if one is None else _values(one, TaskKind.REGRESSION, order) for one in columns)
        return Predictions(rows, None, tuple(texts[place] for place in order.tolist()), *scores)
    except ValueError as error:
        raise InvalidError(f"{capitalized(str(error))}, for a run of {task}.", "predicted") from None


def _values(values: Sequence[Any], task: TaskKind, order: NDArray[np.int64]) -> NDArray[Any]:
    if any(isinstance(value, str) for value in values):
        raise ValueError("expected numbers, got text")
    if task is TaskKind.CLASSIFICATION:
        if any(int(value) != value for value in values):
            raise ValueError("expected classes as whole numbers, got fractions")
        return np.array([int(value) for value in values], dtype=np.int64)[order]
    return np.array(values, dtype=np.float64)[order]


def _answer(text: object) -> str:
    if not isinstance(text, str):
        raise ValueError("expected answers as text, got numbers")
    if len(text) > MAX_ANSWER_CHARACTERS:
        raise ValueError(f"expected answers of at most {count(MAX_ANSWER_CHARACTERS)} characters, got a longer one")
    return text


def _merged(stored: Predictions | None, new: Predictions) -> Predictions:
    if stored is None:
        return new
    # Of a row that both have, the new one comes first and is the one that is kept.
    rows, first = np.unique(np.concatenate([new.rows, stored.rows]), return_index=True)

    def both(mine: NDArray[Any] | None, theirs: NDArray[Any] | None) -> NDArray[Any] | None:
        return None if mine is None or theirs is None else np.concatenate([mine, theirs])[first]

    if isinstance(new.predicted, tuple) and isinstance(stored.predicted, tuple):
        texts = (*new.predicted, *stored.predicted)
        scores = (both(new.exact_match, stored.exact_match), both(new.f1, stored.f1))
        return Predictions(rows, None, tuple(texts[place] for place in first.tolist()), *scores)
    predicted = both(*(one.predicted for one in (new, stored) if not isinstance(one.predicted, tuple)))
    if predicted is None:
        raise InvalidError("Expected predictions of one kind of task in a run.", "predicted")
    return Predictions(rows, both(new.reference, stored.reference), predicted)
