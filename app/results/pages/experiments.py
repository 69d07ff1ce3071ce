"""Experiments: list, watch, delete; take away or bring as files; freeze a choice and open test scores."""

from collections import Counter
from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, File, Form, Query, Request, Response, UploadFile

from app.context import Context
from app.db.models import Experiment, ImportStatus
from app.db.options.regularization import NAMES, reading
from app.descriptions import pages as descriptions
from app.descriptions.service import known_tags
from app.figures.labels import head
from app.results.conclusion.conclusion import read_conclusion
from app.results.conclusion.summary import Summary
from app.results.exchange import cancel_import, create_import, export_experiment, get_import, list_imports
from app.results.figures.legend import Colouring
from app.results.figures.scatter_points import scatter_form
from app.results.figures.study import read_outcome
from app.results.figures.sweep_curves import WINDOWS
from app.results.labels import SCALES, WATCHED, title_of
from app.results.openings import OpeningRequest, name_of_user, open_test, read_test_split
from app.results.run_listing import (
    ExperimentListing,
    RunListing,
    RunQueryDep,
    address_header,
    read_experiment_listing,
    read_run_listing,
)
from app.results.run_table import RunTable, compare_settings
from app.results.search.listing import NEWEST, ExperimentFilter, ExperimentOrder, RunQuery, list_experiments
from app.results.setting import as_cell, cell_text
from app.results.statistics.estimate import Error
from app.results.sweep_figures import (
    FIGURES,
    SECTIONS,
    SweepDep,
    by_section,
    list_figure_slugs,
    read_all_figures,
    read_figure,
)
from app.training.experiments import delete_experiment, describe_experiment, get_experiment, get_experiment_alone
from app.training.queue_status import list_workers, seconds_left
from app.training.run_actions import EXPERIMENTS, RUNS
from app.web.dependencies import ContextDep
from app.web.responses import FileKind, Tab, chosen_tab, figure_file, render, see, sent
from app.web.templating import confirm_deletion
from app.web.uploads import chosen
from isoscope.core.errors import InvalidError, IsoscopeError

archives_router = APIRouter()


@archives_router.get("/experiments/import")
def show_import_form(request: Request, context: ContextDep) -> Response:
    return _form(request, context)


@archives_router.post("/experiments/import")
def import_file(
    request: Request, context: ContextDep, file: Annotated[UploadFile | str | None, File()] = None
) -> Response:
    """Import an exported experiment, or show the form again with what is wrong with the file."""
    try:
        if (given := chosen(file)) is None:
            raise InvalidError("Expected the zip file of an exported experiment: choose one.", "file")
        row = create_import(context, given)
    except IsoscopeError as error:
        return _form(request, context, error)
    return see(f"/imports/{row.id}")


@archives_router.get("/imports/{import_id}")
def show_import(request: Request, context: ContextDep, import_id: str) -> Response:
    """Show how far an import is; once it has finished, the experiment."""
    row = get_import(context, import_id)
    if row.status is not ImportStatus.FINISHED:
        shown = {"row": row, "workers": list_workers(context), "max_bytes": context.settings.max_upload_bytes}
        return render(request, "results/import.html", shown)
    path = "/experiments" if row.experiment_id is None else f"/experiments/{row.experiment_id}"
    if "hx-request" in request.headers:  # a redirect would be followed, and its page put inside of this one
        return Response(headers={"HX-Redirect": path})
    return see(path)


@archives_router.post("/imports/{import_id}/cancel")
def stop_import(context: ContextDep, import_id: str, back: Annotated[Literal["queue", ""], Form()] = "") -> Response:
    """Cancel an import; ``back`` leads to the queue."""
    cancel_import(context, import_id)
    return see("/queue" if back else f"/imports/{import_id}")


@archives_router.get("/experiments/{experiment_id}/export.zip")
def export_file(context: ContextDep, experiment_id: str, query: SweepDep) -> Response:
    """All rows of an experiment and its figures as the page shows them."""
    return sent(export_experiment(context, experiment_id, lambda one: read_all_figures(context, one, query)))


def _form(request: Request, context: Context, problem: IsoscopeError | None = None) -> Response:
    shown = {
        "max_bytes": context.settings.max_upload_bytes,
        "imports": [one for one in list_imports(context) if one.status is not ImportStatus.FINISHED],
    }
    return render(request, "results/experiment_import.html", shown, problem)


router = APIRouter(prefix="/experiments")

TABS = (
    Tab("scatter", "Scatter"),
    Tab("conclusion", "Conclusion"),
    Tab("layers", "Layers"),
    Tab("training", "Training"),
    Tab("runs", "Runs"),
    Tab("paper", "Paper"),
    Tab("settings", "Settings"),
)
TAB_OF_SECTION = {"methods": "conclusion", "layers": "layers", "directions": "layers", "training": "training"}
"""Parts of an experiment's page, and which of them shows the figures of a section."""

MOST_UNFOLDED = 12
"""Rows of the numbers that are shown beside a figure."""


description_router = descriptions.description_router(EXPERIMENTS, get_experiment, describe_experiment)


def _listing(
    context: ContextDep,
    q: str = "",
    page: Annotated[int, Query(ge=1)] = 1,
    tag: Annotated[str, Query(max_length=200)] = "",
    sort: ExperimentOrder = NEWEST,
) -> ExperimentListing:
    return read_experiment_listing(context, q.strip(), page, ExperimentFilter(tag.strip(), sort))


ListingDep = Annotated[ExperimentListing, Depends(_listing)]


@router.get("")
def list_all(request: Request, context: ContextDep, listing: ListingDep) -> Response:
    """Experiments with a run that is searched for, their progress and the spread of their performance."""
    return _list_page(request, context, listing)


def _list_page(
    request: Request, context: Context, listing: ExperimentListing, *, nothing_ticked: bool = False
) -> Response:
    shown = {
        "listing": listing,
        "scales": SCALES,
        "nothing_ticked": nothing_ticked,
        "there": listing.summaries.total or listing.is_narrowed or list_experiments(context, limit=0).total,
        "row_list": EXPERIMENTS,
        "known_tags": known_tags(context, Experiment),
    }
    status = 422 if nothing_ticked else None
    return render(request, "results/experiments.html", shown, listing.problem, status=status)


@router.get("/compare")
def compare(
    request: Request, context: ContextDep, listing: ListingDep, experiment: Annotated[list[str] | None, Query()] = None
) -> Response:
    """The runs of the experiments that were ticked, or the list again where none was."""
    if experiment:
        return see(f"/compare/runs?{urlencode({'experiment': experiment}, doseq=True)}")
    return _list_page(request, context, listing, nothing_ticked=True)


@router.get("/{experiment_id}/runs")
def list_runs(request: Request, context: ContextDep, experiment_id: str, wanted: RunQueryDep) -> Response:
    """Those of its runs that are searched for, on a page of its own and for the table on that of the experiment."""
    here = f"/experiments/{experiment_id}"
    experiment = get_experiment_alone(context, experiment_id)
    table = _table(context, experiment_id, wanted)
    shown = {"experiment": experiment, "table": table, "runs": RUNS}
    headers = address_header(request, here, table.query)
    return render(request, "results/experiment_runs.html", shown, table.problem, headers=headers)


def _table(context: Context, experiment_id: str, wanted: RunQuery) -> RunListing:
    base = f"/experiments/{experiment_id}/runs"
    return read_run_listing(context, wanted, base, back="runs", experiment_id=experiment_id)


@router.get("/{experiment_id}")
def show_experiment(
    request: Request, context: ContextDep, experiment_id: str, query: SweepDep, wanted: RunQueryDep
) -> Response:
    """A part of the sweep; updates itself until all runs have ended. Figures come when they are reached."""
    tab = chosen_tab(TABS, query.tab, "runs" if wanted != RunQuery() else "")
    query = query._replace(tab="" if tab == TABS[0].slug else tab)
    experiment = get_experiment(context, experiment_id)
    config = experiment.config
    workers = list_workers(context)
    sweep = RunTable.from_experiment(experiment)
    colouring = Colouring(sweep, query.style.colour)
    conclusion = read_conclusion(context, sweep)
    shown = {
        "experiment": experiment,
        "sweep": sweep,
        "varied": {
            field: ", ".join(cell_text(as_cell(one)) for one in values)
            for field, values in experiment.grid.items()
            if len(values) > 1
        },
        "table": _table(context, experiment_id, wanted) if tab == "runs" else None,
        "runs": RUNS,
        "scale": SCALES[config.metric],
        "query": query,
        "scatters": [
            read_figure(context, experiment, slug, query, sweep) for slug in query.scatters if tab == "scatter"
        ],
        "errors": Error,
        "form": scatter_form(sweep, config.metric, query.style),
        "colouring": colouring,
        "split": read_test_split(context, experiment),
        "conclusion": conclusion,
        "summary": Summary(conclusion, SCALES[config.metric].title),
        "search": read_outcome(experiment),
        "methods": {NAMES[name]: name in reading("zeta") for name in sweep.methods},
        "fixed": {NAMES[name]: lam for name, lam in config.fixed_regularizers.items()},
        "figures": by_section(list_figure_slugs(experiment)),
        "figure_sections": {one: title for one, title in SECTIONS.items() if TAB_OF_SECTION[one] == tab},
        "tabs": TABS,
        "tab": tab,
        "settings": compare_settings(RunTable(experiment.runs)) if tab == "settings" else None,
        "head": head,
        "watched": {measure: title_of(measure) for measure in WATCHED},
        "windows": WINDOWS,
        "counts": Counter(run.status for run in experiment.runs),
        "ended": experiment.ended,
        "workers": workers,
        "left": seconds_left(experiment.runs, sum(worker.alive for worker in workers)),
    }
    return render(request, "results/experiment.html", shown)


@router.get("/{experiment_id}/delete")
def confirm_delete(request: Request, context: ContextDep, experiment_id: str) -> Response:
    experiment = get_experiment(context, experiment_id)
    loss = f"All {len(experiment.runs)} runs with their curves and results are deleted; the data set stays."
    return confirm_deletion(request, "experiments", experiment.name, loss, f"/experiments/{experiment_id}")


@router.post("/{experiment_id}/delete")
def delete(context: ContextDep, experiment_id: str) -> Response:
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
    return render(request, "results/training_figure.html", shown)


@router.get("/{experiment_id}/figures/{slug}.{kind}")
def show_figure(context: ContextDep, experiment_id: str, slug: str, kind: FileKind, query: SweepDep) -> Response:
    return figure_file([read_figure(context, get_experiment(context, experiment_id), slug, query)], slug, kind)


LONGEST_NOTE, LONGEST_NAME, LONGEST_CHOICE = 2000, 200, 2000


@router.get("/{experiment_id}/opening")
def show_opening_form(request: Request, context: ContextDep, experiment_id: str) -> Response:
    """What can be chosen, and what freezing it means."""
    return _page(request, context, experiment_id)


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
    """Freeze the choice and show the scores, or show the form again with what is wrong."""
    typed = {"choose": choose, "run": run, "note": note, "by": by}
    try:
        if not (chosen := run or choose):
            raise InvalidError("Choose a setting or a run.", "choose")
        wanted = OpeningRequest(
            choose=chosen[:LONGEST_CHOICE],
            note=_at_most(note, LONGEST_NOTE, "note"),
            by=_at_most(by, LONGEST_NAME, "by"),
        )
        open_test(context, experiment_id, wanted)
    except IsoscopeError as error:
        return _page(request, context, experiment_id, error, typed)
    return see(f"/experiments/{experiment_id}?tab=conclusion#test")


def _at_most(text: str, most: int, field: str) -> str:
    if len(text) > most:
        raise InvalidError(f"Expected at most {most:,} characters, got {len(text):,}.", field)
    return text


def _page(
    request: Request,
    context: Context,
    experiment_id: str,
    problem: IsoscopeError | None = None,
    typed: dict[str, str] | None = None,
) -> Response:
    split = read_test_split(context, get_experiment(context, experiment_id))
    shown = {
        "experiment": split.experiment,
        "split": split,
        "scale": SCALES[split.experiment.config.metric],
        "user": name_of_user(context.settings),
        "typed": typed or {"choose": "", "run": "", "note": "", "by": ""},
    }
    return render(request, "results/experiment_opening.html", shown, problem)
