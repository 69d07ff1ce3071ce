"""Pages of experiments: list, watch, delete, export, import, open test scores."""

from collections import Counter
from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, File, Form, Query, Request, Response, UploadFile

from app.context import Context
from app.core.validation_messages import validate_form
from app.db.models import Experiment, ImportStatus
from app.db.options.regularization import REGULARIZER_NAMES, regularizers_with
from app.descriptions import pages as descriptions
from app.descriptions.service import collect_tags
from app.figures.labels import field_heading
from app.results.api.experiments import export_file
from app.results.conclusion.conclusion import read_conclusion
from app.results.conclusion.summary import Summary
from app.results.exchange import cancel_import, create_import, get_import, list_imports
from app.results.figures.legend import Coloring
from app.results.figures.scatter_points import make_scatter_form
from app.results.figures.study import read_outcome
from app.results.figures.sweep_curves import WINDOWS
from app.results.labels import METRIC_AXES, TRAINING_MEASURES, title_of
from app.results.openings import OpeningRequest, open_test, read_test_split
from app.results.rounds import SeedCount, SeedRequest, add_seeds
from app.results.run_listing import (
    ExperimentListing,
    ListingDep,
    RunListing,
    RunQueryDep,
    address_header,
    read_run_listing,
)
from app.results.run_table import RunTable, as_cell, cell_text
from app.results.search.listing import RunQuery, list_experiments
from app.results.setting_comparison import compare_settings
from app.results.statistics.estimate import ErrorBar
from app.results.sweep_figures import SECTIONS, SweepDep, group_by_section, list_figure_slugs, read_figure
from app.training.experiments import delete_experiment, describe_experiment, get_experiment, get_experiment_without_runs
from app.training.queue_status import estimate_seconds_left, list_running_with_time_left, list_workers
from app.training.run_actions import EXPERIMENTS, RUNS
from app.web.activity import current_user_name, find_launcher
from app.web.dependencies import ContextDep
from app.web.responses import FileKind, Tab, chosen_tab, figure_file, redirect_to, render, render_figure
from app.web.templating import confirm_deletion
from app.web.uploads import chosen_file
from isoscope.core.errors import InvalidError, IsoscopeError

archives_router = APIRouter()


@archives_router.get("/experiments/import")
def show_import_form(request: Request, context: ContextDep) -> Response:
    return _import_page(request, context)


@archives_router.post("/experiments/import")
def import_file(
    request: Request, context: ContextDep, file: Annotated[UploadFile | str | None, File()] = None
) -> Response:
    try:
        if (upload := chosen_file(file)) is None:
            raise InvalidError("Expected the zip file of an exported experiment: choose one.", "file")
        row = create_import(context, upload)
    except IsoscopeError as error:
        return _import_page(request, context, error)
    return redirect_to(f"/imports/{row.id}")


@archives_router.get("/imports/{import_id}")
def show_import(request: Request, context: ContextDep, import_id: str) -> Response:
    row = get_import(context, import_id)
    if row.status is not ImportStatus.FINISHED:
        values = {"row": row, "workers": list_workers(context), "max_bytes": context.settings.max_upload_bytes}
        return render(request, "results/import.html", values)
    path = "/experiments" if row.experiment_id is None else f"/experiments/{row.experiment_id}"
    if "hx-request" in request.headers:  # htmx would insert the page of a plain redirect into this one
        return Response(headers={"HX-Redirect": path})
    return redirect_to(path)


@archives_router.post("/imports/{import_id}/cancel")
def stop_import(context: ContextDep, import_id: str, back: Annotated[Literal["queue", ""], Form()] = "") -> Response:
    """Cancel an import; ``back`` leads to the queue."""
    cancel_import(context, import_id)
    return redirect_to("/queue" if back else f"/imports/{import_id}")


archives_router.get("/experiments/{experiment_id}/export.zip")(export_file)


def _import_page(request: Request, context: Context, problem: IsoscopeError | None = None) -> Response:
    values = {
        "max_bytes": context.settings.max_upload_bytes,
        "imports": [row for row in list_imports(context) if row.status is not ImportStatus.FINISHED],
    }
    return render(request, "results/experiment_import.html", values, problem)


router = APIRouter(prefix="/experiments")

TABS = (Tab("result", "Result"), Tab("training", "Training"), Tab("runs", "Runs"), Tab("export", "Export"))
SECTIONS_OF_TAB = {"result": ["methods"], "training": ["training", "layers", "directions"]}

description_router = descriptions.description_router(EXPERIMENTS, get_experiment, describe_experiment)


@router.get("")
def list_all(request: Request, context: ContextDep, listing: ListingDep) -> Response:
    return _list_page(request, context, listing)


def _list_page(
    request: Request, context: Context, listing: ExperimentListing, *, nothing_selected: bool = False
) -> Response:
    is_filtered = bool(listing.q or listing.criteria.tag)
    values = {
        "listing": listing,
        "metric_axes": METRIC_AXES,
        "nothing_selected": nothing_selected,
        "has_search": is_filtered or listing.summaries.total or list_experiments(context, limit=0).total,
        "row_list": EXPERIMENTS,
        "known_tags": collect_tags(context, Experiment),
    }
    status = 422 if nothing_selected else None
    return render(request, "results/experiments.html", values, listing.problem, status=status)


@router.get("/compare")
def compare(
    request: Request, context: ContextDep, listing: ListingDep, experiment: Annotated[list[str] | None, Query()] = None
) -> Response:
    if experiment:
        return redirect_to(f"/compare/runs?{urlencode({'experiment': experiment}, doseq=True)}")
    return _list_page(request, context, listing, nothing_selected=True)


@router.get("/{experiment_id}/runs")
def list_runs(request: Request, context: ContextDep, experiment_id: str, run_query: RunQueryDep) -> Response:
    """List the runs of a search on their own page, from which the experiment's page loads the table."""
    path = f"/experiments/{experiment_id}"
    experiment = get_experiment_without_runs(context, experiment_id)
    listing = _read_experiment_runs(context, experiment_id, run_query)
    crumbs = [("Experiments", "/experiments"), (experiment.name, path)]
    values = {"section": "experiments", "crumbs": crumbs, "listing": listing, "row_list": RUNS}
    headers = address_header(request, path, listing.query)
    return render(request, "results/run_list.html", values, listing.problem, headers=headers)


def _read_experiment_runs(context: Context, experiment_id: str, run_query: RunQuery) -> RunListing:
    path = f"/experiments/{experiment_id}/runs"
    return read_run_listing(context, run_query, path, back="runs", experiment_id=experiment_id)


@router.get("/{experiment_id}")
def show_experiment(
    request: Request, context: ContextDep, experiment_id: str, query: SweepDep, run_query: RunQueryDep
) -> Response:
    """Show a tab of the experiment; by default, its curves while it runs. It refreshes until all runs have ended."""
    experiment = get_experiment(context, experiment_id)
    default_tab = "" if experiment.ended else "training"
    if run_query != RunQuery():
        default_tab = "runs"
    tab = chosen_tab(TABS, query.tab, default_tab)
    query = query._replace(tab=tab)
    config = experiment.config
    workers = list_workers(context)
    sweep = RunTable.from_experiment(experiment)
    conclusion = read_conclusion(context, sweep)
    page_values = {
        "experiment": experiment,
        "launcher": find_launcher(context, f"/experiments/{experiment_id}"),
        "sweep": sweep,
        "varied": {
            field: ", ".join(cell_text(as_cell(value)) for value in values)
            for field, values in experiment.grid.items()
            if len(values) > 1
        },
        "listing": _read_experiment_runs(context, experiment_id, run_query) if tab == "runs" else None,
        "row_list": RUNS,
        "metric_axis": METRIC_AXES[config.metric],
        "query": query,
        "scatters": [
            read_figure(context, experiment, slug, query, sweep) for slug in query.scatters if tab == "result"
        ],
        "errors": ErrorBar,
        "form": make_scatter_form(sweep, config.metric, query.style),
        "coloring": Coloring(sweep, query.style.color),
        "split": read_test_split(context, experiment),
        "conclusion": conclusion,
        "summary": Summary(conclusion, METRIC_AXES[config.metric].title),
        "search": read_outcome(experiment),
        "methods": {REGULARIZER_NAMES[name]: name in regularizers_with("zeta") for name in sweep.methods},
        "fixed": {REGULARIZER_NAMES[name]: lam for name, lam in config.fixed_regularizers.items()},
        "figures": group_by_section(list_figure_slugs(experiment)),
        "figure_sections": {section: SECTIONS[section] for section in SECTIONS_OF_TAB.get(tab, [])},
        "tabs": TABS,
        "tab": tab,
        "settings": compare_settings(RunTable(experiment.runs)) if tab == "export" else None,
        "head": field_heading,
        "measure_titles": {measure: title_of(measure) for measure in TRAINING_MEASURES},
        "windows": WINDOWS,
        "counts": Counter(run.status for run in experiment.runs),
        "ended": experiment.ended,
        "workers": workers,
        "running": list_running_with_time_left(experiment.runs) if tab == "training" else [],
        "seconds_left": estimate_seconds_left(experiment.runs, sum(worker.alive for worker in workers)),
    }
    return render(request, "results/experiment.html", page_values)


@router.get("/{experiment_id}/delete")
def confirm_delete(request: Request, context: ContextDep, experiment_id: str) -> Response:
    experiment = get_experiment(context, experiment_id)
    consequence = f"All {len(experiment.runs)} runs with their curves and results are deleted; the data set stays."
    return confirm_deletion(request, "experiments", experiment.name, consequence, f"/experiments/{experiment_id}")


@router.post("/{experiment_id}/delete")
def delete(context: ContextDep, experiment_id: str) -> Response:
    delete_experiment(context, experiment_id)
    return redirect_to("/experiments")


@router.post("/{experiment_id}/seeds")
def add_more_seeds(
    context: ContextDep, experiment_id: str, seeds: Annotated[SeedCount | None, Form()] = None
) -> Response:
    add_seeds(context, experiment_id, SeedRequest(seeds=seeds))
    return redirect_to(f"/experiments/{experiment_id}")


@router.get("/{experiment_id}/figures/{slug}.html")
def show_figure_page(request: Request, context: ContextDep, experiment_id: str, slug: str, query: SweepDep) -> Response:
    experiment = get_experiment(context, experiment_id)
    figure = read_figure(context, experiment, slug, query)
    crumbs = [("Experiments", "/experiments"), (experiment.name, f"/experiments/{experiment_id}")]
    return render_figure(request, figure, "experiments", crumbs, query.to_query_string(), live=not experiment.ended)


@router.get("/{experiment_id}/figures/{slug}.{kind}")
def show_figure(context: ContextDep, experiment_id: str, slug: str, kind: FileKind, query: SweepDep) -> Response:
    return figure_file([read_figure(context, get_experiment(context, experiment_id), slug, query)], slug, kind)


@router.get("/{experiment_id}/opening")
def show_opening_form(request: Request, context: ContextDep, experiment_id: str) -> Response:
    return _opening_page(request, context, experiment_id)


@router.post("/{experiment_id}/opening")
def open_scores(
    request: Request,
    context: ContextDep,
    experiment_id: str,
    choose: Annotated[str, Form()] = "",
    run: Annotated[str, Form()] = "",
    note: Annotated[str, Form()] = "",
    by: Annotated[str, Form()] = "",
) -> Response:
    form_values = {"choose": choose, "run": run, "note": note, "by": by}
    try:
        if not (selected := run or choose):
            raise InvalidError("Choose a setting or a run.", "choose")
        opening = validate_form(OpeningRequest, {"choose": selected, "note": note, "by": by})
        open_test(context, experiment_id, opening)
    except IsoscopeError as error:
        return _opening_page(request, context, experiment_id, error, form_values)
    return redirect_to(f"/experiments/{experiment_id}?tab=result#test")


def _opening_page(
    request: Request,
    context: Context,
    experiment_id: str,
    problem: IsoscopeError | None = None,
    form_values: dict[str, str] | None = None,
) -> Response:
    split = read_test_split(context, get_experiment(context, experiment_id))
    values = {
        "experiment": split.experiment,
        "split": split,
        "metric_axis": METRIC_AXES[split.experiment.config.metric],
        "user": current_user_name(),
        "typed": form_values or {"choose": "", "run": "", "note": "", "by": ""},
    }
    return render(request, "results/experiment_opening.html", values, problem)
