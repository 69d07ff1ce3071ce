"""What is known of finished runs row by row, whether they learned, and what readers must know of them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from app.db.config import Checkpoint, Selection
from app.db.models import Run, RunStatus
from app.db.predictions import Predictions
from app.db.task import Metric, TaskKind
from app.numerals import count, plural
from app.results.conclusion.evidence import Evidence
from app.results.points import finished, given_up, named, unscored
from app.results.statistics.row_values import (
    accuracy_values,
    f1_values,
    matthews_values,
    pearson_values,
    spearman_values,
)
from app.results.sweep import Sweep

CLOSE = 1e-3
"""How far a logged performance may lie from that of the predictions: scripts round to three digits."""

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowValues:
    """What each validation row contributes to the performance of a run."""

    rows: bytes
    """The same for runs that were scored on the same rows with the same answers."""
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
    metric, given = run.config.get("metric"), predictions.predicted
    if isinstance(given, tuple):
        return predictions.exact_match if metric == Metric.EXACT_MATCH else predictions.f1
    if len(predictions) < 2 or predictions.reference is None:
        return None
    if predictions.kind is TaskKind.REGRESSION:
        of_numbers = pearson_values if metric == Metric.PEARSON else spearman_values
        return of_numbers(predictions.reference.astype(float), given.astype(float))
    right, answered = predictions.reference.astype(np.int64), given.astype(np.int64)
    if metric == Metric.F1:
        return f1_values(right, answered, 1 if len(run.config.get("label_names") or ()) == 2 else None)
    return (matthews_values if metric == Metric.MATTHEWS else accuracy_values)(right, answered)


def cautions(found: Evidence, sweep: Sweep) -> list[str]:
    """Trainings that failed, and what was chosen on the rows shown."""
    runs = finished(sweep)
    said = []
    for flagged, what in ((found.learned_nothing, "learned nothing"), (found.diverged, "diverged")):
        if flagged:
            labels = named([one.label for one in flagged])
            said.append(f"{plural(len(flagged), 'run')} {what}: {labels}. {flagged[0].why}")
    if any(run.experiment.study for run in sweep.runs):
        said.append("A study chose λ by the results before it, so the runs are not independent and no p is exact.")
    if chosen := sum(map(_chose_on_validation, runs)):
        which = "The runs" if chosen == len(runs) else f"{count(chosen)} of {plural(len(runs), 'run')}"
        said.append(f"{which} chose their checkpoint or their end on the validation rows shown, which flatters them.")
    if len(found.comparisons) > 1:
        said.append("Choosing λ on these rows is optimistic. Report it on rows that chose nothing.")
    return said


def left_out(sweep: Sweep, found: Evidence) -> list[str]:
    """Which runs the numbers are not of, and which of them count as one."""
    said = [performance] if (performance := unscored(sweep).replace("Not drawn", "Left out").strip()) else []
    if without := sum(run.performance is not None and run.isoscore_star is None for run in finished(sweep)):
        said.append(f"Not in the relation, because IsoScore★ is undefined: {plural(without, 'run')}.")
    if failed := [run for run in sweep.runs if run.status is RunStatus.FAILED]:
        of = named([sweep.label(setting) for setting in sweep.by_setting(failed)])
        runs = plural(len(failed), "run")
        said.append(f"Not in any number, because they failed, so that only other seeds count: {runs} of {of}.")
    if flattered := given_up(sweep, "Left out").strip():
        said.append(flattered)
    if found.repeated:
        said.append(f"Run more than once, and counted once, by the mean of such runs: {named(found.repeated)}.")
    return said


def _chose_on_validation(run: Run) -> bool:
    config = run.config
    chose = config.get("checkpoint") == Checkpoint.BEST or config.get("patience") is not None
    return chose and config.get("selection") == Selection.VALIDATION
