"""What is read of runs beside their rows: logged values, figures, predictions, the kept model."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from pydantic_core import from_json
from sqlalchemy import ColumnElement, Text, cast, func, select
from sqlalchemy.orm import Session

from app.context import Context
from app.db.models import Base, Run, RunFigure, Split
from app.db.models import RunPredictions as Stored
from app.db.predictions import Predictions, read_predictions
from app.figures.figure import Table
from app.results.openings import require_opened
from app.storage.storage import Download
from app.training.experiments import get_run, no_run
from isoscope.core.errors import ConflictError, NotFoundError
from isoscope.core.task import TaskKind

ACTIVATION = "activation"
MOST_VALUES = 20_000
"""Steps that a figure of an experiment reads; of more there are some of each run, at equal distances."""
FEWEST_EACH = 10
MOST_NAMED = 5000
"""Steps that a query names; where it would take more, as runs of scripts log at any steps, all are read."""

# As tables, since rows of classes take twice as long. What hides runs does not see it; who asks has them at hand.
_STEPS, _RUNS = Base.metadata.tables["steps"], Base.metadata.tables["runs"]

Value = TypeVar("Value")
Quantity = Literal["task_loss", "penalty"]
Layers = Mapping[str, Sequence[float | None] | None]
Of = str | Sequence[str]
"""An experiment by its id, or runs by theirs."""


@dataclass(frozen=True)
class Logged(Generic[Value]):
    """A value at each step at which a run logged it, by run, in the order of the steps.

    All of ``total`` are here, or of every ``apart`` steps the last.
    """

    by_run: dict[str, list[tuple[int, Value]]]
    total: int
    apart: int = 1

    @property
    def shown(self) -> int:
        """How many are here."""
        return sum(map(len, self.by_run.values()))


def list_logged(context: Context, of: Of, quantity: Quantity) -> Logged[float]:
    """Task loss or penalty of all runs of an experiment, or of those by id."""
    column = _STEPS.c[quantity]
    with context.sessions() as session:
        extent = _read_extent(session, of, column)
        return _gathered(_read_wanted(session, of, column, [column], extent), extent)


def list_looks(context: Context, of: Of, measures: Sequence[str]) -> Logged[Layers]:
    """Some measures by layer, first layer first, at every step at which a run was looked at."""
    column = _STEPS.c.layers
    texts = [cast(column[measure], Text) for measure in measures]
    with context.sessions() as session:
        extent = _read_extent(session, of, column)
        rows = _read_wanted(session, of, column, texts, extent)
    # Parse them together: for many short texts, calling the parser costs more than parsing.
    lists = [f"[{','.join(text or 'null' for text in row[2:])}]" for row in rows]
    looks = (dict(zip(measures, values, strict=True)) for values in from_json(f"[{','.join(lists)}]"))
    return _gathered(((row[0], row[1], look) for row, look in zip(rows, looks, strict=True)), extent)


class _Extent(NamedTuple):
    """How many values there are, how many steps lie between two that are kept, and where these are among."""

    total: int
    apart: int
    steps: Sequence[int] | None
    """None where all are read."""


def _read_extent(session: Session, of: Of, column: Any) -> _Extent:
    logged = select(_STEPS.c.step, func.count()).join(_RUNS, _RUNS.c.id == _STEPS.c.run_id)
    known = logged.where(_among(of, _RUNS.c), column.is_not(None))
    counts: dict[int, int] = dict(session.execute(known.group_by(_STEPS.c.step)).all())
    total = sum(counts.values())
    if total <= MOST_VALUES:
        return _Extent(total, 1, None)
    last = select(func.max(_STEPS.c.step)).where(_STEPS.c.run_id == _RUNS.c.id, column.is_not(None)).scalar_subquery()
    ends = [end for end in session.scalars(select(last).where(_among(of, _RUNS.c))) if end is not None]
    apart = -(-max(ends) // max(MOST_VALUES // len(ends), FEWEST_EACH))
    steps = steps_to_read(counts, ends, apart)
    return _Extent(total, apart, steps if len(steps) <= MOST_NAMED else None)


def steps_to_read(counts: Mapping[int, int], ends: Iterable[int], apart: int) -> list[int]:
    """Return steps among which every run has the last of its own in each stretch of ``apart`` steps.

    ``counts`` tells how many runs logged at a step, ``ends`` the last step of each run. Runs of one experiment mostly
    log at the same steps, so these are few: of each stretch the last, and where some run has none there, those before
    it, back to one that all runs that got so far have.
    """
    in_order = sorted(ends)
    found: list[int] = []
    complete = None
    for step in sorted(counts, reverse=True):
        stretch = _stretch(step, apart)
        if stretch != complete:
            found.append(step)
            there = len(in_order) - bisect_right(in_order, (stretch - 1) * apart)
            complete = stretch if counts[step] == there else None
    return found


def _stretch(step: int, apart: int) -> int:
    """The number of the stretch that a step is in; it ends with a multiple of ``apart``."""
    return -(-step // apart)


def _read_wanted(
    session: Session, of: Of, column: Any, values: Sequence[ColumnElement[Any]], extent: _Extent
) -> Sequence[Any]:
    """Run, step and these values, of the steps that have the column."""
    step = _STEPS.c.step
    known = select(_STEPS.c.run_id, step, *values).join(_RUNS, _RUNS.c.id == _STEPS.c.run_id)
    known = known.where(_among(of, _RUNS.c), column.is_not(None))
    if extent.steps is not None:
        # The sum keeps PostgreSQL from one lookup in the index for every run and step: it scans those of a run at once.
        looked_up = step + 0 if session.get_bind().dialect.name == "postgresql" else step
        known = known.where(looked_up.in_(extent.steps))
    return session.execute(known).all()


def _gathered(rows: Iterable[tuple[str, int, Value]], extent: _Extent) -> Logged[Value]:
    """Values by run in the order of their steps, of each stretch the last."""
    by_run: dict[str, list[tuple[int, Value]]] = {}
    for run_id, step, value in rows:
        by_run.setdefault(run_id, []).append((step, value))
    for points in by_run.values():
        points.sort(key=itemgetter(0))
        if extent.apart > 1:
            points[:] = {_stretch(point[0], extent.apart): point for point in points}.values()
    return Logged(by_run, extent.total, extent.apart)


def list_by_layer(context: Context, of: Of, measure: str) -> dict[str, dict[str, Any]]:
    """``{"values", "reasons", "n"}`` of a measure by layer, for every run that has it, of an experiment or by id."""
    found = Run.results[("by_layer", measure)]
    n = Run.results[("by_layer_n", measure)]
    wanted = select(Run.id, found, n).where(_among(of), Run.results.is_not(None))
    with context.sessions() as session:
        return {run_id: {**one, "n": rows} for run_id, one, rows in session.execute(wanted) if one}


def list_metric(context: Context, of: Of, metric: str) -> dict[str, tuple[float | None, str | None]]:
    """A metric and why it is null, for every run with results, of an experiment or by id."""
    wanted = select(Run.id, Run.results["metrics"], Run.results["metric_reasons"]).where(
        _among(of), Run.results.is_not(None)
    )
    with context.sessions() as session:
        found = session.execute(wanted).all()
    return {run_id: ((values or {}).get(metric), (reasons or {}).get(metric)) for run_id, values, reasons in found}


def list_run_figures(context: Context, of: Of, slug: str) -> dict[str, dict[str, Any]]:
    """The data of a figure, for every run that has it, of an experiment or by id."""
    wanted = select(RunFigure.run_id, RunFigure.data).join(Run, Run.id == RunFigure.run_id)
    stored = wanted.where(_among(of), RunFigure.slug == slug)
    with context.sessions() as session:
        return dict(session.execute(stored).all())


def find_run_figure(context: Context, run_id: str, slug: str) -> dict[str, Any] | None:
    """The data of a figure of a run, if it has that."""
    with context.sessions() as session:
        found = session.get(RunFigure, (run_id, slug))
    return found.data if found else None


def get_activation(context: Context, run_id: str) -> dict[str, Any]:
    """``{"n", "mean": [d], "std": [d]}`` of the sentence vectors of a finished run's last layer."""
    found = find_run_figure(context, run_id, ACTIVATION)
    if found is None:
        raise NotFoundError(f"There is no activation of a run {run_id!r}; it is kept when a run finishes.")
    return found


def _among(of: Of, runs: Any = Run) -> ColumnElement[bool]:
    """The runs of an experiment by its id, or those of these ids."""
    found: ColumnElement[bool] = runs.experiment_id == of if isinstance(of, str) else runs.id.in_(of)
    return found


ROWS_AT_ONCE = 5000


class PredictionRow(NamedTuple):
    """What a run predicted for one row of its data set."""

    row: int
    """Position in the rows of the split, from 0."""
    reference: int | float | str | None
    predicted: int | float | str
    exact_match: float | None
    f1: float | None


class RunPredictions(NamedTuple):
    """The predictions of a run, classes by their names."""

    run: Run
    predictions: Predictions

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[PredictionRow]:
        """Yield the rows from place ``start`` up to ``stop``."""
        found, some = self.predictions, slice(start, stop)
        n = len(found.rows[some])
        names = self.run.config.label_names
        named = found.kind is TaskKind.CLASSIFICATION and bool(names)
        columns = (
            found.rows[some].tolist(),
            [None] * n if found.reference is None else found.reference[some].tolist(),
            found.predicted[some] if isinstance(found.predicted, tuple) else found.predicted[some].tolist(),
            [None] * n if found.exact_match is None else found.exact_match[some].tolist(),
            [None] * n if found.f1 is None else found.f1[some].tolist(),
        )
        for row, reference, predicted, exact_match, f1 in zip(*columns, strict=True):
            if named:
                yield PredictionRow(row, _name(names, reference), _name(names, predicted), None, None)
            else:
                yield PredictionRow(row, reference, predicted, exact_match, f1)

    def csv(self) -> Iterator[str]:
        """Yield all rows as CSV, some thousand at a time."""
        spans = self.predictions.kind is TaskKind.SPAN
        left_out = ("reference",) if spans else ("exact_match", "f1")
        columns = [name for name in PredictionRow._fields if name not in left_out]
        yield Table(columns, []).csv()
        for start in range(0, len(self.predictions), ROWS_AT_ONCE):
            some = self.rows(start, start + ROWS_AT_ONCE)
            lines = Table(columns, [[getattr(row, name) for name in columns] for row in some]).csv()
            yield lines.partition("\n")[2]


def get_predictions(context: Context, run_id: str, split: Split = Split.VALIDATION) -> RunPredictions:
    """Return what a run predicted for the validation rows, or for the test rows of an experiment that was opened.

    Raises:
        ConflictError: the test rows are sealed.

    """
    with context.sessions() as session:
        run = session.get(Run, run_id)
        if run is not None:
            require_opened(session, run, split)
        found = read_predictions(session, [run_id], split).get(run_id)
    if run is None:
        raise no_run(run_id)
    if found is None:
        raise NotFoundError(
            f"No {split} predictions are stored for run {run_id!r}. They are stored when a run finishes, or when a "
            "script logs them; runs of earlier versions have none."
        )
    return RunPredictions(run, found)


def count_predictions(context: Context, run_id: str) -> int | None:
    """Return how many rows a run has predictions for; None where it has none."""
    with context.sessions() as session:
        return session.scalar(select(Stored.n).where(Stored.run_id == run_id, Stored.split == Split.VALIDATION))


def _name(names: list[str], place: int) -> str:
    return names[place] if 0 <= place < len(names) else str(place)


def get_model(context: Context, run_id: str) -> Download:
    """The trained model of a run that kept it, as a zip file."""
    run = get_run(context, run_id)
    if run.model_sha256 is None:
        raise ConflictError(
            f"This run is {run.status} and has kept no model: only a finished run of an experiment that was launched "
            "with export has one."
        )
    name = f"{run.experiment.name}, {run.regularizer}, lambda {run.lam:g}, seed {run.seed}, {run.id[:8]}.zip"
    return Download(context.storage.local(run.model_sha256), name)
