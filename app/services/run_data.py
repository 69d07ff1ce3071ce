"""What figures of runs read beside their rows: each with one query, however many runs there are."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, select

from app.context import Context
from app.db.models import Run, RunFigure, Step
from app.db.models.runs import Looks
from app.errors import NotFoundError

ACTIVATION = "activation"


def list_losses(context: Context, experiment_id: str) -> dict[str, list[tuple[int, float]]]:
    """The task loss at every step at which a run has logged it, by run, in the order of the steps."""
    logged = select(Step.run_id, Step.step, Step.task_loss).join(Run).where(Run.experiment_id == experiment_id)
    losses: dict[str, list[tuple[int, float]]] = {}
    with context.sessions() as session:
        for run_id, step, loss in session.execute(logged.order_by(Step.run_id, Step.step)):
            if loss is not None:
                losses.setdefault(run_id, []).append((step, loss))
    return losses


def list_looks(context: Context, experiment_id: str, measures: Sequence[str]) -> Mapping[str, Looks]:
    """Some measures by layer at every step at which a run was looked at, by run, in the order of the steps."""
    picked = select(Step.run_id, Step.step, *(Step.layers[measure] for measure in measures)).join(Run)
    looked = picked.where(Run.experiment_id == experiment_id, Step.layers.is_not(None))
    looks: dict[str, list[tuple[int, dict[str, list[float | None] | None]]]] = {}
    with context.sessions() as session:
        for run_id, step, *values in session.execute(looked.order_by(Step.run_id, Step.step)):
            looks.setdefault(run_id, []).append((step, dict(zip(measures, values, strict=True))))
    return looks


def list_by_layer(context: Context, of: str | Sequence[str], measure: str) -> dict[str, dict[str, Any]]:
    """``{"values", "reasons", "n"}`` of a measure by layer, for every run that has it, of an experiment or by id."""
    found = Run.results[("by_layer", measure)]
    n = Run.results[("by_layer_n", measure)]
    wanted = select(Run.id, found, n).where(_among(of), Run.results.is_not(None))
    with context.sessions() as session:
        return {run_id: {**one, "n": rows} for run_id, one, rows in session.execute(wanted) if one}


def list_run_figures(context: Context, experiment_id: str, slug: str) -> dict[str, dict[str, Any]]:
    """The data of a figure, for every run of an experiment that has it."""
    wanted = select(RunFigure.run_id, RunFigure.data).join(Run, Run.id == RunFigure.run_id)
    stored = wanted.where(Run.experiment_id == experiment_id, RunFigure.slug == slug)
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


def _among(of: str | Sequence[str]) -> ColumnElement[bool]:
    """The runs of an experiment by its id, or those of these ids."""
    return Run.experiment_id == of if isinstance(of, str) else Run.id.in_(of)
