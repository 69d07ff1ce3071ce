"""Pages of a run, and the buttons that steer runs and experiments."""

from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple

from fastapi import APIRouter, Depends, Form, Request, Response
from fastapi.responses import StreamingResponse

from app.context import Context
from app.db.learning import trivial_score
from app.db.models import Experiment, Run, RunStatus
from app.descriptions.service import collect_tags
from app.results import run_page
from app.results.api.experiments import EXPERIMENT_COMMANDS
from app.results.api.runs import RUN_COMMANDS, csv_response, download_model
from app.results.labels import METRIC_AXES, TRAINING_MEASURES, list_weights, title_of, uses_text_vectors
from app.results.run_data import count_predictions, get_predictions
from app.results.run_listing import encode_query
from app.results.search.listing import RunQuery
from app.training import queue_verbs
from app.training.experiments import find_baseline_config, get_run
from app.training.failure_advice import OUTCOME_TEXTS, find_advice
from app.training.queue_status import has_lost_worker, list_workers
from app.training.run_actions import tag_run
from app.training.sweep_form import LABELS
from app.web.dependencies import ContextDep
from app.web.responses import FileKind, Tab, chosen_tab, figure_file, redirect_to, render, render_figure
from isoscope.core.errors import InvalidError
from isotropy.catalog import REGULARIZERS

router = APIRouter(prefix="/runs/{run_id}")

TRAINING, RESULTS = Tab("training", "Training"), Tab("results", "Results")
LOG, SETTINGS = Tab("log", "Log"), Tab("settings", "Settings")


@router.get("")
def show_run(
    request: Request, context: ContextDep, run_id: str, tab: str = "", measure: str = TRAINING_MEASURES[0]
) -> Response:
    """Show a tab of the run; the log if it failed. The page refreshes until the run has ended."""
    return _run_page(request, context, run_id, tab, measure)


def _run_page(
    request: Request,
    context: Context,
    run_id: str,
    tab: str = "",
    measure: str = "",
    typed_tags: str | None = None,
    problem: InvalidError | None = None,
) -> Response:
    run = get_run(context, run_id)
    config = run.config
    measure = measure if measure in TRAINING_MEASURES else TRAINING_MEASURES[0]
    n_predicted = count_predictions(context, run_id)
    has_content = {
        TRAINING: True,
        RESULTS: bool(run.results or n_predicted or run.model_sha256),
        LOG: bool(run.log or run.timeline),
        SETTINGS: True,
    }
    tabs = [page_tab for page_tab, is_shown in has_content.items() if is_shown]
    tab = chosen_tab(tabs, tab, LOG.slug if run.status is RunStatus.FAILED and LOG in tabs else "")
    page_values = {
        "run": run,
        "name": run_page.full_name(run),
        "metric_axis": METRIC_AXES[config.metric],
        "metric_axes": METRIC_AXES,
        "methods": {REGULARIZERS[name]: lam for name, lam in list_weights(config)},
        "tabs": tabs,
        "tab": tab,
        "figures": run_page.draw_tab_figures(context, run, measure, tab),
        "measure": measure,
        "uses_text_vectors": uses_text_vectors(measure),
        "measure_titles": {slug: title_of(slug) for slug in TRAINING_MEASURES},
        "by_layer": run_page.list_measures_by_layer(run.results),
        "trivial": trivial_score(run),
        "predicted": n_predicted,
        "details": run_page.list_details(run.results),
        "protocols": run_page.list_protocols(run.results),
        "configuration": run_page.list_options(run.config, find_baseline_config(context, run)),
        "advice": find_advice(run),
        "labels": LABELS,
        "outcomes": OUTCOME_TEXTS,
        "has_lost_worker": has_lost_worker(run, list_workers(context)),
        "known_tags": collect_tags(context),
        "typed_tags": typed_tags,
    }
    return render(request, "results/run.html", page_values, problem)


router.get("/model.zip")(download_model)


@router.get("/predictions.csv")
def download_predictions(context: ContextDep, run_id: str) -> StreamingResponse:
    return csv_response(get_predictions(context, run_id))


@router.get("/figures/{slug}.html")
def show_figure_page(
    request: Request, context: ContextDep, run_id: str, slug: str, measure: str = TRAINING_MEASURES[0]
) -> Response:
    run = get_run(context, run_id)
    figure = run_page.read_run_figure(context, run, slug, measure)
    crumbs = [("Experiments", "/experiments"), (run_page.full_name(run), f"/runs/{run_id}")]
    query = run_page.RUN_FIGURES[slug].query(measure)
    return render_figure(request, figure, "experiments", crumbs, query, live=not run.status.final)


@router.get("/figures/{slug}.{kind}")
def show_figure(
    context: ContextDep, run_id: str, slug: str, kind: FileKind, measure: str = TRAINING_MEASURES[0]
) -> Response:
    return figure_file([run_page.read_run_figure(context, get_run(context, run_id), slug, measure)], slug, kind)


buttons_router = APIRouter()


@buttons_router.post("/runs/{run_id}/tags")
def change_tags(request: Request, context: ContextDep, run_id: str, tags: Annotated[str, Form()] = "") -> Response:
    try:
        tag_run(context, run_id, tags.split(","))
    except InvalidError as error:
        return _run_page(request, context, run_id, typed_tags=tags, problem=error)
    return redirect_to(f"/runs/{run_id}")


# The page with a pressed button. Empty: the page of the run or the experiment itself.
RunButtonPage = Literal["", "queue", "runs", "across"]
ExperimentButtonPage = Annotated[Literal["", "queue"], Form()]


class RunButtonOrigin(NamedTuple):
    """The page with the pressed button of a run, and the search of runs on it."""

    back: Annotated[RunButtonPage, Form()] = ""
    q: Annotated[str, Form()] = ""
    sort: Annotated[str, Form()] = ""
    page: Annotated[int, Form(ge=1)] = 1

    def address(self, run: Run) -> str:
        query_string = encode_query(RunQuery.parse(self.q, self.sort, self.page))
        addresses = {
            "queue": "/queue",
            "runs": f"/experiments/{run.experiment_id}/runs{query_string}",
            "across": f"/compare/runs/list{query_string}",
        }
        return addresses.get(self.back, f"/runs/{run.id}")


OriginDep = Annotated[RunButtonOrigin, Depends()]


def _run_button_endpoint(command: Callable[[Context, str], Run]) -> Callable[..., Response]:
    def endpoint(context: ContextDep, run_id: str, origin: OriginDep) -> Response:
        return redirect_to(origin.address(command(context, run_id)))

    return endpoint


def _experiment_button_endpoint(command: Callable[[Context, str], Experiment]) -> Callable[..., Response]:
    def endpoint(context: ContextDep, experiment_id: str, back: ExperimentButtonPage = "") -> Response:
        return _redirect_back(command(context, experiment_id).id, back)

    return endpoint


for _verb, (_run_command, _) in RUN_COMMANDS.items():
    buttons_router.post(f"/runs/{{run_id}}/{_verb}", name=f"{_verb}_run")(_run_button_endpoint(_run_command))
for _verb, (_experiment_command, _) in EXPERIMENT_COMMANDS.items():
    buttons_router.post(f"/experiments/{{experiment_id}}/{_verb}", name=f"{_verb}_experiment")(
        _experiment_button_endpoint(_experiment_command)
    )


@buttons_router.post("/runs/{run_id}/move/{position}")
def move_run(context: ContextDep, run_id: str, position: queue_verbs.QueueMove, origin: OriginDep) -> Response:
    return redirect_to(origin.address(queue_verbs.move_run(context, run_id, position)))


@buttons_router.post("/experiments/{experiment_id}/move/{position}")
def move_experiment(
    context: ContextDep, experiment_id: str, position: Literal["first", "last"], back: ExperimentButtonPage = ""
) -> Response:
    queue_verbs.move_experiment(context, experiment_id, queue_verbs.QueueMove(position))
    return _redirect_back(experiment_id, back)


@buttons_router.post("/queue/pause")
def pause_everything(context: ContextDep) -> Response:
    queue_verbs.pause_all(context)
    return redirect_to("/queue")


@buttons_router.post("/queue/resume")
def resume_everything(context: ContextDep) -> Response:
    queue_verbs.resume_all(context)
    return redirect_to("/queue")


def _redirect_back(experiment_id: str, back: str) -> Response:
    return redirect_to("/queue" if back == "queue" else f"/experiments/{experiment_id}")
