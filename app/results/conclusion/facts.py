"""What is known of finished runs row by row, and whether they learned anything."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from app.db.models import Run
from app.db.predictions import Predictions
from app.results.statistics.row_values import (
    accuracy_values,
    f1_values,
    matthews_values,
    pearson_values,
    spearman_values,
)
from isoscope.core.task import Metric, TaskKind

CLOSE = 1e-3
"""How far a logged performance may lie from that of the predictions: scripts round to three digits."""

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowValues:
    """What each validation row contributes to the performance of a run."""

    rows: bytes
    """A digest of the scored rows and their labels; runs with equal digests can be paired by row."""
    values: npt.NDArray[np.float32]
    """[rows]; their mean is the performance."""


@dataclass(frozen=True)
class RunFacts:
    """Facts of a finished run, which no poll of a page need read again."""

    rows: RowValues | None = None
    without_rows: str = "no predictions are stored"
    """Why there are no row values, as a clause."""
    learned_nothing: str | None = None
    """Why it is taken to have learned nothing, as a sentence."""
    diverged: str | None = None
    """How its training diverged, as a sentence."""
    judged: bool = False
    """Whether it is known what a trivial predictor scores, so that ``learned_nothing`` says something if it is None."""


NOTHING_KNOWN = RunFacts()


def row_values(run: Run, predictions: Predictions, rows: bytes) -> RowValues | str:
    """Return the row values of a run's metric, or why there are none."""
    values = _of_metric(run, predictions)
    if values is None:
        return "the metric has no value by row"
    if run.performance is None or abs(float(values.mean()) - run.performance) > CLOSE:
        return "the stored predictions do not give the logged performance"
    return RowValues(rows, values.astype(np.float32))


def _of_metric(run: Run, predictions: Predictions) -> Values | None:
    metric, given = run.config.metric, predictions.predicted
    if isinstance(given, tuple):
        return predictions.exact_match if metric == Metric.EXACT_MATCH else predictions.f1
    if len(predictions) < 2 or predictions.reference is None:
        return None
    if predictions.kind is TaskKind.REGRESSION:
        of_numbers = pearson_values if metric == Metric.PEARSON else spearman_values
        return of_numbers(predictions.reference.astype(float), given.astype(float))
    right, answered = predictions.reference.astype(np.int64), given.astype(np.int64)
    if metric == Metric.F1:
        return f1_values(right, answered, 1 if len(run.config.label_names) == 2 else None)
    return (matthews_values if metric == Metric.MATTHEWS else accuracy_values)(right, answered)
