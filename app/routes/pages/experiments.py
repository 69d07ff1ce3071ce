"""Experiments: list them, watch one, stop it, delete it."""

from collections import Counter
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from app.context import Context
from app.db.regularizer_options import reading
from app.dependencies import ContextDep
from app.figures.colouring import Colouring, choices
from app.figures.logged import WINDOWS
from app.problems import status_of
from app.regularizers import NAMES
from app.results.metrics import SCALES, WATCHED, title_of
from app.results.run_table import RunTable, address, read_listing, read_table
from app.results.setting import cell, words
from app.results.statistics.estimate import Error
from app.results.sweep import Sweep
from app.routes.queries import RunQueryDep, SweepDep
from app.routes.responses import FileKind, figure_file, see
from app.services.conclusions import read_conclusion
from app.services.experiments import (
    delete_experiment,
    get_experiment,
    get_experiment_alone,
)
from app.services.openings import read_test_split
from app.services.run_search import RunQuery
from app.services.sweep_figures import FIGURES, SECTIONS, by_section, offered, read_figure
from app.services.workers import list_workers
from app.templating import templates
from app.training.search_outcome import outcome_of

router = APIRouter(prefix="/experiments")

MOST_UNFOLDED = 12
"""Rows of the numbers that are shown beside a figure."""


@router.get("")
def list_all(request: Request, context: ContextDep, q: str = "", page: Annotated[int, Query(ge=1)] = 1) -> Response:
    """Experiments with a run that is searched for, their progress and the spread of their performance."""
    listing = read_listing(context, q.strip(), page)
    status = status_of(listing.problem) if listing.problem else 200
    shown = {"listing": listing, "scales": SCALES, "nothing_ticked": False}
    return templates.TemplateResponse(request, "experiments.html", shown, status_code=status)


@router.get("/compare")
def compare(
    request: Request,
    context: ContextDep,
    experiment: Annotated[list[str] | None, Query()] = None,
    q: str = "",
    page: Annotated[int, Query(ge=1)] = 1,
) -> Response:
    """The runs of the experiments that were ticked, or the list again where none was."""
    if experiment:
        return see(f"/compare/runs?{urlencode({'experiment': experiment}, doseq=True)}")
    shown = {"listing": read_listing(context, q.strip(), page), "scales": SCALES, "nothing_ticked": True}
    return templates.TemplateResponse(request, "experiments.html", shown, status_code=422)


@router.get("/{experiment_id}/runs")
def list_runs(request: Request, context: ContextDep, experiment_id: str, wanted: RunQueryDep) -> Response:
    """Those of its runs that are searched for, on a page of its own and for the table on that of the experiment."""
    here = f"/experiments/{experiment_id}"
    experiment = get_experiment_alone(context, experiment_id)
    table = _table(context, experiment_id, wanted)
    shown = {"experiment": experiment, "table": table}
    status = status_of(table.problem) if table.problem else 200
    headers = address(request, here, table.query)
    return templates.TemplateResponse(request, "experiment_runs.html", shown, status_code=status, headers=headers)


def _table(context: Context, experiment_id: str, wanted: RunQuery) -> RunTable:
    base = f"/experiments/{experiment_id}/runs"
    return read_table(context, wanted, base, back="runs", experiment_id=experiment_id)


@router.get("/{experiment_id}")
def show_experiment(
    request: Request, context: ContextDep, experiment_id: str, query: SweepDep, wanted: RunQueryDep
) -> Response:
    """The sweep and its runs; updates itself until all have ended. What lies further down comes when it is reached."""
    experiment = get_experiment(context, experiment_id)
    config = experiment.config
    sweep = Sweep.of(experiment)
    colouring = Colouring(sweep, query.look.colour)
    shown = {
        "experiment": experiment,
        "sweep": sweep,
        "varied": {
            field: ", ".join(words(cell(one)) for one in values)
            for field, values in experiment.grid.items()
            if len(values) > 1
        },
        "table": _table(context, experiment_id, wanted),
        "scale": SCALES[config.metric],
        "query": query,
        "scatters": [read_figure(context, experiment, slug, query, sweep) for slug in query.scatters],
        "errors": Error,
        "choices": choices(sweep),
        "colouring": colouring,
        "split": read_test_split(context, experiment),
        "conclusion": read_conclusion(context, sweep),
        "search": outcome_of(experiment),
        "methods": {NAMES[name]: name in reading("zeta") for name in sweep.compared},
        "fixed": {NAMES[name]: lam for name, lam in config.fixed_regularizers.items()},
        "figures": by_section(offered(experiment)),
        "figure_sections": SECTIONS,
        "watched": {measure: title_of(measure) for measure in WATCHED},
        "windows": WINDOWS,
        "counts": Counter(run.status for run in experiment.runs),
        "ended": experiment.ended,
        "workers": list_workers(context),
    }
    return templates.TemplateResponse(request, "experiment.html", shown)


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
        "folded": not FIGURES[slug].unfolded or len(figure.table.rows) > MOST_UNFOLDED,
        "live": not experiment.ended,
    }
    return templates.TemplateResponse(request, "training_figure.html", shown)


@router.get("/{experiment_id}/figures/{slug}.{kind}")
def show_figure(context: ContextDep, experiment_id: str, slug: str, kind: FileKind, query: SweepDep) -> Response:
    """A figure of the experiment."""
    return figure_file([read_figure(context, get_experiment(context, experiment_id), slug, query)], slug, kind)
