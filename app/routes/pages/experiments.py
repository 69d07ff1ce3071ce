"""Experiments: list them, watch one, stop it, delete it."""

from collections import Counter
from typing import Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from app.db.models import Experiment
from app.dependencies import ContextDep
from app.figures.figure import Figure
from app.figures.learning import losses
from app.figures.scatter import METRIC_TITLES, isotropy_performance, lambda_performance
from app.routes.pages.answers import FileKind, figure_file, see
from app.services.experiments import cancel_experiment, delete_experiment, get_experiment, list_experiments
from app.services.runs import list_steps
from app.services.workers import list_workers, worker_lost
from app.templating import templates

router = APIRouter(prefix="/experiments")

View = Literal["isotropy", "lambda"]


@router.get("")
def list_all(request: Request, context: ContextDep) -> Response:
    """All experiments with their progress and the spread of their performance."""
    return templates.TemplateResponse(
        request, "experiments.html", {"experiments": list_experiments(context), "metrics": METRIC_TITLES}
    )


@router.get("/{experiment_id}")
def show_experiment(
    request: Request,
    context: ContextDep,
    experiment_id: str,
    view: View = "isotropy",
    seeds: bool = False,
) -> Response:
    """The two views of the sweep, its learning curves and its runs; updates itself until all have ended."""
    experiment = get_experiment(context, experiment_id)
    workers = list_workers(context)
    shown = {
        "experiment": experiment,
        "metric": METRIC_TITLES[experiment.config["metric"]],
        "view": view,
        "seeds": seeds,
        "query": urlencode({"seeds": "1"}) if seeds else "",
        "scatter": _scatter(experiment, view, seeds=seeds),
        "learning": losses(experiment.runs, list_steps(context, experiment_id)),
        "counts": Counter(run.status for run in experiment.runs),
        "ended": all(run.status.final for run in experiment.runs),
        "workers": workers,
        "lost": {run.id for run in experiment.runs if worker_lost(run, workers)},
    }
    return templates.TemplateResponse(request, "experiment.html", shown)


@router.post("/{experiment_id}/cancel")
def stop(context: ContextDep, experiment_id: str) -> Response:
    """Cancel all runs that have not ended."""
    cancel_experiment(context, experiment_id)
    return see(f"/experiments/{experiment_id}")


@router.get("/{experiment_id}/delete")
def confirm_delete(request: Request, context: ContextDep, experiment_id: str) -> Response:
    """Ask before deleting."""
    experiment = get_experiment(context, experiment_id)
    shown = {
        "section": "experiments",
        "name": experiment.name,
        "loss": f"All {len(experiment.runs)} runs with their curves and results are deleted; the data set stays.",
        "back": f"/experiments/{experiment_id}",
    }
    return templates.TemplateResponse(request, "confirm_delete.html", shown)


@router.post("/{experiment_id}/delete")
def delete(context: ContextDep, experiment_id: str) -> Response:
    """Delete it."""
    delete_experiment(context, experiment_id)
    return see("/experiments")


@router.get("/{experiment_id}/figures/{slug}.{kind}")
def show_figure(context: ContextDep, experiment_id: str, slug: str, kind: FileKind, seeds: bool = False) -> Response:
    """A figure of the experiment."""
    experiment = get_experiment(context, experiment_id)
    figures = [_scatter(experiment, "isotropy", seeds=seeds), _scatter(experiment, "lambda", seeds=seeds)]
    if slug == "learning":
        figures.append(losses(experiment.runs, list_steps(context, experiment_id)))
    return figure_file(figures, slug, kind)


def _scatter(experiment: Experiment, view: View, *, seeds: bool) -> Figure:
    draw = isotropy_performance if view == "isotropy" else lambda_performance
    return draw(experiment.runs, experiment.config["metric"], seeds=seeds)
