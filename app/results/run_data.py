"""Data of runs beyond their rows: logged values, figures, predictions, the exported model."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from pydantic_core import from_json
from sqlalchemy import ColumnElement, Text, cast, func, select

from app.context import Context
from app.db.models import Base, Run, RunFigure, Split
from app.db.models import RunPredictions as StoredPredictions
from app.db.predictions import Predictions, read_predictions
from app.figures.figure import FigureTable
from app.results.openings import require_opened
from app.training.experiments import get_run, run_not_found
from isoscope.core.errors import ConflictError, NotFoundError
from isoscope.core.formatting import count, plural
from isoscope.core.task import TaskKind
from isoscope.files.upload import NamedFile

# Maximum number of logged values in a figure. If there are more, each run keeps one in every ``stride`` steps.
MAX_VALUES = 10_000
MIN_VALUES_PER_RUN = 10
# Maximum number of steps named in a query. If more are needed, because runs logged at different steps, all are read.
MAX_NAMED_STEPS = 5000
ROWS_PER_CHUNK = 5000

# Use tables, because rows of mapped classes take twice as long. The filter that hides deleted runs skips tables.
_STEPS, _RUNS = Base.metadata.tables["steps"], Base.metadata.tables["runs"]

Value = TypeVar("Value")
Layers = Mapping[str, Sequence[float | None] | None]
# The id of an experiment, which stands for all its runs, or ids of runs.
RunSource = str | Sequence[str]


@dataclass(frozen=True)
class LoggedValues(Generic[Value]):
    """Steps and values by run, in order of steps: all ``total`` values, or the last in every ``stride`` steps."""

    points_by_run: dict[str, list[tuple[int, Value]]]
    total: int
    stride: int = 1

    def sample_note(self, noun: str) -> str:
        """Return a sentence, after a space, on which of the logged values were read; empty if all were."""
        if (n := sum(map(len, self.points_by_run.values()))) == self.total:
            return ""
        return f" {count(n)} of {count(self.total)} {noun} are shown: the last of every {plural(self.stride, 'step')}."


def list_logged(context: Context, source: RunSource, quantity: Literal["task_loss", "penalty"]) -> LoggedValues[float]:
    column = _STEPS.c[quantity]
    rows, total, stride = _read_steps(context, source, column, [column])
    return _group_by_run(rows, total, stride)


def list_layer_measurements(context: Context, source: RunSource, measures: Sequence[str]) -> LoggedValues[Layers]:
    """Return, for each run and step with measured layers, the values of these measures, first layer first."""
    column = _STEPS.c.layers
    rows, total, stride = _read_steps(context, source, column, [cast(column[measure], Text) for measure in measures])
    # Parse all rows in one call: for many short texts, calling the parser costs more than parsing.
    lists = [f"[{','.join(text or 'null' for text in row[2:])}]" for row in rows]
    measurements = (dict(zip(measures, values, strict=True)) for values in from_json(f"[{','.join(lists)}]"))
    return _group_by_run(
        ((row[0], row[1], measurement) for row, measurement in zip(rows, measurements, strict=True)), total, stride
    )


def _read_steps(
    context: Context, source: RunSource, column: Any, values: Sequence[ColumnElement[Any]]
) -> tuple[Sequence[Any], int, int]:
    """Return rows of run id, step and values where ``column`` is not null, how many are stored, and the stride."""
    step, run_join = _STEPS.c.step, _RUNS.c.id == _STEPS.c.run_id
    conditions = (_select_runs(source, _RUNS.c), column.is_not(None))
    query = select(_STEPS.c.run_id, step, *values).join(_RUNS, run_join).where(*conditions)
    stride = 1
    with context.sessions() as session:
        count_query = select(step, func.count()).join(_RUNS, run_join).where(*conditions)
        counts: dict[int, int] = dict(session.execute(count_query.group_by(step)).all())
        total = sum(counts.values())
        if total > MAX_VALUES:
            last_step = select(func.max(step)).where(run_join, column.is_not(None)).scalar_subquery()
            last_steps = session.scalars(select(last_step).where(_select_runs(source, _RUNS.c)))
            ends = [end for end in last_steps if end is not None]
            values_per_run = max(MAX_VALUES // len(ends), MIN_VALUES_PER_RUN)
            stride = -(-max(ends) // values_per_run)  # rounded up
            steps = steps_to_read(counts, ends, stride)
            if len(steps) <= MAX_NAMED_STEPS:
                # Adding 0 keeps PostgreSQL from an index lookup per run and step. It scans the steps of a run at once.
                step_key = step + 0 if session.get_bind().dialect.name == "postgresql" else step
                query = query.where(step_key.in_(steps))
        return session.execute(query).all(), total, stride


def steps_to_read(counts: Mapping[int, int], ends: Iterable[int], stride: int) -> list[int]:
    """Return steps that include each run's last one in every stretch of ``stride`` steps.

    ``counts`` maps a step to the number of runs that logged at it. ``ends`` holds the last step of each run. Runs of
    one experiment mostly log at the same steps, so the last step of each stretch is often enough. If a run has not
    logged there, earlier steps are added, back to one at which all runs that reach the stretch have logged.
    """
    sorted_ends = sorted(ends)
    steps: list[int] = []
    complete_stretch = None
    for step in sorted(counts, reverse=True):
        stretch = -(-step // stride)  # rounded up
        if stretch != complete_stretch:
            steps.append(step)
            n_runs = len(sorted_ends) - bisect_right(sorted_ends, (stretch - 1) * stride)
            complete_stretch = stretch if counts[step] == n_runs else None
    return steps


def _group_by_run(rows: Iterable[tuple[str, int, Value]], total: int, stride: int) -> LoggedValues[Value]:
    points_by_run: dict[str, list[tuple[int, Value]]] = {}
    for run_id, step, value in rows:
        points_by_run.setdefault(run_id, []).append((step, value))
    for points in points_by_run.values():
        points.sort(key=itemgetter(0))
        if stride > 1:
            # Keep the last point of each stretch.
            points[:] = {-(-step // stride): (step, value) for step, value in points}.values()
    return LoggedValues(points_by_run, total, stride)


def list_by_layer(context: Context, source: RunSource, measure: str) -> dict[str, dict[str, Any]]:
    """Return ``{"values", "reasons", "n"}`` of a measure by layer, by id of every run that has it."""
    by_layer, n = Run.results[("by_layer", measure)], Run.results[("by_layer_n", measure)]
    query = select(Run.id, by_layer, n).where(_select_runs(source), Run.results.is_not(None))
    with context.sessions() as session:
        return {run_id: {**layers, "n": rows} for run_id, layers, rows in session.execute(query) if layers}


def list_metric(context: Context, source: RunSource, metric: str) -> dict[str, tuple[float | None, str | None]]:
    """Return a metric and the reason if it is null, by id of every run with results."""
    query = select(Run.id, Run.results["metrics"], Run.results["metric_reasons"])
    with context.sessions() as session:
        rows = session.execute(query.where(_select_runs(source), Run.results.is_not(None))).all()
    return {run_id: ((values or {}).get(metric), (reasons or {}).get(metric)) for run_id, values, reasons in rows}


def list_metrics(context: Context, ids: Sequence[str]) -> dict[str, dict[str, float | None]]:
    query = select(Run.id, Run.results["metrics"]).where(Run.id.in_(ids), Run.results.is_not(None))
    with context.sessions() as session:
        return {run_id: metrics for run_id, metrics in session.execute(query) if metrics}


def list_activations(context: Context, source: RunSource) -> dict[str, dict[str, Any]]:
    query = select(RunFigure.run_id, RunFigure.data).join(Run, Run.id == RunFigure.run_id)
    with context.sessions() as session:
        return dict(session.execute(query.where(_select_runs(source), RunFigure.slug == "activation")).all())


def get_activation(context: Context, run_id: str) -> dict[str, Any]:
    """Return ``{"n", "mean": [d], "std": [d]}`` of the sentence vectors of a finished run's last layer."""
    activation = list_activations(context, [run_id]).get(run_id)
    if activation is None:
        raise NotFoundError(f"There is no activation of a run {run_id!r}; it is kept when a run finishes.")
    return activation


def _select_runs(source: RunSource, columns: Any = Run) -> ColumnElement[bool]:
    is_experiment = isinstance(source, str)
    condition: ColumnElement[bool] = columns.experiment_id == source if is_experiment else columns.id.in_(source)
    return condition


class PredictionRow(NamedTuple):
    """The prediction of a run for one row of its data set. The last two are None except for answers."""

    row: int
    reference: int | float | str | None
    predicted: int | float | str
    exact_match: float | None
    f1: float | None


class PredictionTable(NamedTuple):
    """The predictions of a run, with classes as names."""

    run: Run
    predictions: Predictions

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[PredictionRow]:
        predictions, chunk = self.predictions, slice(start, stop)
        n = len(predictions.rows[chunk])
        names = self.run.config.label_names
        columns = (
            predictions.rows[chunk].tolist(),
            [None] * n if predictions.reference is None else predictions.reference[chunk].tolist(),
            predictions.predicted[chunk]
            if isinstance(predictions.predicted, tuple)
            else predictions.predicted[chunk].tolist(),
            [None] * n if predictions.exact_match is None else predictions.exact_match[chunk].tolist(),
            [None] * n if predictions.f1 is None else predictions.f1[chunk].tolist(),
        )
        for row, reference, predicted, exact_match, f1 in zip(*columns, strict=True):
            if predictions.kind is TaskKind.CLASSIFICATION and names:
                reference_name, predicted_name = (
                    names[label] if 0 <= label < len(names) else str(label) for label in (reference, predicted)
                )
                yield PredictionRow(row, reference_name, predicted_name, None, None)
            else:
                yield PredictionRow(row, reference, predicted, exact_match, f1)

    def csv(self) -> Iterator[str]:
        are_spans = self.predictions.kind is TaskKind.SPAN
        absent_columns = ("reference",) if are_spans else ("exact_match", "f1")
        columns = [name for name in PredictionRow._fields if name not in absent_columns]
        yield FigureTable(columns, []).csv()
        for start in range(0, len(self.predictions), ROWS_PER_CHUNK):
            chunk = self.rows(start, start + ROWS_PER_CHUNK)
            lines = FigureTable(columns, [[getattr(row, name) for name in columns] for row in chunk]).csv()
            yield lines.partition("\n")[2]


def get_predictions(context: Context, run_id: str, split: Split = Split.VALIDATION) -> PredictionTable:
    """Return a run's predictions for the rows of a split. Raise ConflictError for test rows that are still sealed."""
    with context.sessions() as session:
        run = session.get(Run, run_id)
        if run is not None:
            require_opened(session, run, split)
        predictions = read_predictions(session, [run_id], split).get(run_id)
    if run is None:
        raise run_not_found(run_id)
    if predictions is None:
        raise NotFoundError(
            f"No {split} predictions are stored for run {run_id!r}. They are stored when a run finishes, or when a "
            "script logs them; runs of earlier versions have none."
        )
    return PredictionTable(run, predictions)


def count_predictions(context: Context, run_id: str) -> int | None:
    """Return the number of validation rows for which a run has predictions; None if it has none."""
    is_validation = StoredPredictions.split == Split.VALIDATION
    with context.sessions() as session:
        return session.scalar(select(StoredPredictions.n).where(StoredPredictions.run_id == run_id, is_validation))


def get_model(context: Context, run_id: str) -> NamedFile:
    """Return the trained model of a run as a zip file. Raise ConflictError if the run has kept none."""
    run = get_run(context, run_id)
    if run.model_sha256 is None:
        raise ConflictError(
            f"This run is {run.status} and has kept no model: only a finished run of an experiment that was launched "
            "with export has one."
        )
    name = f"{run.experiment.name}, {run.regularizer}, lambda {run.lam:g}, seed {run.seed}, {run.id[:8]}.zip"
    return NamedFile(context.storage.local_path(run.model_sha256), name)
