"""What figures of runs read beside their rows: each with a fixed number of queries, however many runs there are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, and_, func, literal, select, true
from sqlalchemy.orm import Session, aliased

from app.context import Context
from app.db.models import Run, RunFigure, Step
from isoscope.core.errors import NotFoundError

ACTIVATION = "activation"
MOST_VALUES = 20_000
"""Steps that a figure of an experiment reads; of more there are some of each run, at equal distances."""
FEWEST_EACH = 10

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
    column = getattr(Step, quantity)
    with context.sessions() as session:
        extent = _extent(session, of, column)
        rows = _rows(session, of, column, [column], extent)
        values = ((run_id, step, value) for run_id, step, value in rows)
        return Logged(_gathered(values), extent.total, extent.apart)


def list_looks(context: Context, of: Of, measures: Sequence[str]) -> Logged[Layers]:
    """Some measures by layer, first layer first, at every step at which a run was looked at."""
    with context.sessions() as session:
        extent = _extent(session, of, Step.layers)
        rows = _rows(session, of, Step.layers, [Step.layers[measure] for measure in measures], extent)
        looks = ((run_id, step, dict(zip(measures, values, strict=True))) for run_id, step, *values in rows)
        return Logged(_gathered(looks), extent.total, extent.apart)


class _Extent(NamedTuple):
    """How many values there are, the last step of any run, and how many steps lie between two that are read."""

    total: int
    longest: int
    apart: int


def _extent(session: Session, of: Of, column: Any) -> _Extent:
    last = select(func.max(Step.step)).where(Step.run_id == Run.id).correlate(Run).scalar_subquery()
    ends = select(last.label("last")).where(_among(of)).subquery()
    known = select(func.count(column)).select_from(Run).join(Step, Step.run_id == Run.id)
    total = known.where(_among(of)).scalar_subquery()
    runs, longest, values = session.execute(select(func.count(), func.max(ends.c.last), total).select_from(ends)).one()
    if values <= MOST_VALUES:
        return _Extent(values, longest, 1)
    return _Extent(values, longest, -(-longest // max(MOST_VALUES // runs, FEWEST_EACH)))


def _rows(
    session: Session, of: Of, column: Any, wanted: Sequence[ColumnElement[Any]], extent: _Extent
) -> Iterable[Any]:
    """Run, step and what is wanted: of every step that has the column, or of every so many steps of the last."""
    known = (_among(of), column.is_not(None))
    picked = select(Step.run_id, Step.step, *wanted).select_from(Run)
    if extent.apart == 1:
        read = picked.join(Step, Step.run_id == Run.id)
    else:
        # Looked up in the index, run by run and end by end: to group all steps takes a database seconds.
        ends = select(literal(0).label("step")).cte("ends", recursive=True)
        ends = ends.union_all(select(ends.c.step + extent.apart).where(ends.c.step < extent.longest))
        inner = aliased(Step)
        within = (inner.run_id == Run.id, inner.step > ends.c.step - extent.apart, inner.step <= ends.c.step)
        there = select(inner.step).where(*within, getattr(inner, column.key).is_not(None))
        last = there.order_by(inner.step.desc()).limit(1).correlate(Run, ends).scalar_subquery()
        read = picked.join(ends, true()).join(Step, and_(Step.run_id == Run.id, Step.step == last))
    return session.execute(read.where(*known).order_by(Step.run_id, Step.step))


def _gathered(rows: Iterable[tuple[str, int, Value]]) -> dict[str, list[tuple[int, Value]]]:
    by_run: dict[str, list[tuple[int, Value]]] = {}
    for run_id, step, value in rows:
        by_run.setdefault(run_id, []).append((step, value))
    return by_run


def list_by_layer(context: Context, of: Of, measure: str) -> dict[str, dict[str, Any]]:
    """``{"values", "reasons", "n"}`` of a measure by layer, for every run that has it, of an experiment or by id."""
    found = Run.results[("by_layer", measure)]
    n = Run.results[("by_layer_n", measure)]
    wanted = select(Run.id, found, n).where(_among(of), Run.results.is_not(None))
    with context.sessions() as session:
        return {run_id: {**one, "n": rows} for run_id, one, rows in session.execute(wanted) if one}


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


def _among(of: Of) -> ColumnElement[bool]:
    """The runs of an experiment by its id, or those of these ids."""
    return Run.experiment_id == of if isinstance(of, str) else Run.id.in_(of)
