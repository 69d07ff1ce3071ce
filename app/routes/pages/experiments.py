"""Experiments: list them, watch one, stop it, delete it."""

from collections import Counter
from typing import Literal

from fastapi import APIRouter, Request, Response

from app.db.stated import Stated
from app.dependencies import ContextDep
from app.figures.layer_measures import WATCHED, title_of
from app.figures.legend import colour
from app.figures.metrics import SCALES
from app.figures.setting import cell, words
from app.figures.sweep import Sweep
from app.regularizers import NAMES
from app.routes.pages.answers import FileKind, figure_file, see
from app.routes.pages.studies import outcome_of
from app.routes.pages.sweep_figures import SweepDep, offered, read_figure
from app.services.experiments import cancel_experiment, delete_experiment, get_experiment, list_experiments
from app.services.workers import list_workers, worker_lost
from app.templating import templates

router = APIRouter(prefix="/experiments")

UNFOLDED = ("late-anisotropy",)
"""Figures whose numbers are the point, and are shown where they are few."""
MOST_UNFOLDED = 12

View = Literal["isotropy", "lambda"]


@router.get("")
def list_all(request: Request, context: ContextDep) -> Response:
    """All experiments with their progress and the spread of their performance."""
    shown = {"experiments": list_experiments(context), "scales": SCALES}
    return templates.TemplateResponse(request, "experiments.html", shown)


@router.get("/{experiment_id}")
def show_experiment(
    request: Request, context: ContextDep, experiment_id: str, query: SweepDep, view: View = "isotropy"
) -> Response:
    """The sweep and its runs; updates itself until all have ended. What lies further down comes when it is reached."""
    experiment = get_experiment(context, experiment_id)
    config = Stated.of(experiment)
    sweep, workers = Sweep.of(experiment), list_workers(context)
    shown = {
        "experiment": experiment,
        "stated": config,
        "sweep": sweep,
        "varied": {field: ", ".join(words(cell(one)) for one in experiment.grid[field]) for field in sweep.fields},
        "settings": [sweep.setting(run) for run in experiment.runs],
        "colours": {setting: colour(sweep, setting) for setting in sweep.settings},
        "scale": SCALES[config.metric],
        "view": view,
        "query": query,
        "scatter": read_figure(context, experiment, view, query),
        "learning": read_figure(context, experiment, "learning", query),
        "search": outcome_of(experiment),
        "methods": [NAMES[name] for name in sweep.methods],
        "beside": {NAMES[name]: lam for name, lam in config.beside.items()},
        "offered": offered(experiment),
        "watched": {measure: title_of(measure) for measure in WATCHED},
        "counts": Counter(run.status for run in experiment.runs),
        "ended": experiment.ended,
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


@router.get("/{experiment_id}/figures/{slug}.html")
def show_figure_page(request: Request, context: ContextDep, experiment_id: str, slug: str, query: SweepDep) -> Response:
    """A figure of the experiment on a page of its own, of which the experiment's page takes it when it is reached."""
    experiment = get_experiment(context, experiment_id)
    figure = read_figure(context, experiment, slug, query)
    shown = {
        "name": experiment.name,
        "here": f"/experiments/{experiment_id}",
        "figure": figure,
        "query": query.encoded(),
        "folded": slug not in UNFOLDED or len(figure.table.rows) > MOST_UNFOLDED,
        "live": not experiment.ended,
    }
    return templates.TemplateResponse(request, "training_figure.html", shown)


@router.get("/{experiment_id}/figures/{slug}.{kind}")
def show_figure(context: ContextDep, experiment_id: str, slug: str, kind: FileKind, query: SweepDep) -> Response:
    """A figure of the experiment."""
    return figure_file([read_figure(context, get_experiment(context, experiment_id), slug, query)], slug, kind)
