"""The routes of all features, and those of no feature: home, the catalog, figures over the API."""

from datetime import datetime
from pkgutil import resolve_name
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Path, Request, Response

from app.context import Context
from app.descriptions import api as descriptions_api
from app.descriptions import pages as descriptions_pages
from app.embeddings.choice import ChoiceDep, comparison_figures
from app.embeddings.decision import describe_decision
from app.embeddings.encoding_layers import LayersDep, build_layers_report
from app.embeddings.encodings import get_encoding
from app.embeddings.library import EMBEDDINGS, list_newest_measured
from app.embeddings.report import report_figures
from app.embeddings.service import get_embedding
from app.embeddings.zeta_curves import ShrinkageDep
from app.operations.health import measure_space
from app.playground.figures import PlaygroundDep, playground_figures
from app.postprocess.service import get_postprocessing
from app.postprocess.trial import trial_figures
from app.results.conclusion.conclusion import read_conclusion
from app.results.conclusion.summary import Summary
from app.results.figures.sweep_curves import TASK_LOSS
from app.results.run_page import RUN_FIGURES, read_run_figure
from app.results.run_table import RunTable
from app.results.sweep_figures import SweepDep, list_figure_slugs, read_figure
from app.tasks.family_figures import list_task_figures
from app.training import queue_status
from app.training.experiments import get_experiment, get_run, list_newest_ended
from app.training.run_actions import EXPERIMENTS, RUNS
from app.web import security
from app.web.dependencies import ContextDep, limit_writers
from app.web.error_responses import Problem
from app.web.responses import FigureOut, find_figure, render
from isoscope.core.task import METRIC_TITLES
from isoscope.files.upload_formats import Role, suffixes, titles
from isotropy.catalog import GROUPS, measures_of

home_router = APIRouter()

MAX_HOME_ROWS = 3


class LatestDecision(NamedTuple):
    """The conclusion of an experiment or the decision on an embedding, in a few sentences."""

    name: str
    path: str
    sentence: str
    created_at: datetime


@home_router.get("/")
def show_home(request: Request, context: ContextDep) -> Response:
    runs, workers = queue_status.list_runs_in_progress(context), queue_status.list_workers(context)
    experiments = [
        (experiment, queue_status.list_running_with_time_left(runs.get(experiment.id, ())))
        for experiment in queue_status.list_unfinished_experiments(context, runs)[:MAX_HOME_ROWS]
    ]
    encodings = queue_status.list_unfinished_encodings(context)
    _, embeddings = queue_status.list_unfinished_uploads(context)
    values = {
        "experiments": experiments,
        "is_lost": lambda run: queue_status.has_lost_worker(run, workers),
        "encodings": encodings,
        "embeddings": embeddings,
        "at_work": bool(experiments or encodings or embeddings),
        "curves": TASK_LOSS,
        "decisions": list_decisions(context),
        "formats": titles(Role.VECTORS),
        "suffixes": suffixes(Role.VECTORS),
        "max_bytes": context.settings.max_upload_bytes,
    }
    return render(request, "home.html", values)


def list_decisions(context: Context) -> list[LatestDecision]:
    decisions = []
    for experiment in list_newest_ended(context, MAX_HOME_ROWS):
        sweep = RunTable.from_experiment(experiment)
        cards = Summary(read_conclusion(context, sweep), METRIC_TITLES[experiment.config.metric]).cards
        if len(cards) > 1:  # otherwise runs are unfinished, or none has a result
            best, effect = cards[:2]
            sentence = f"{effect.question} {effect.answer}. {best.answer}: {best.evidence}"
            path = f"/experiments/{experiment.id}"
            decisions.append(LatestDecision(experiment.name, path, sentence, experiment.created_at))
    for embedding in list_newest_measured(context, MAX_HOME_ROWS):
        sentence = describe_decision(context, embedding.id)
        decisions.append(LatestDecision(embedding.name, f"/embeddings/{embedding.id}", sentence, embedding.created_at))
    return sorted(decisions, key=lambda decision: decision.created_at, reverse=True)


@home_router.get("/measures")
def list_measures(request: Request) -> Response:
    groups = [(group, heading, measures) for group, heading in GROUPS.items() if (measures := measures_of(group))]
    return render(request, "measures.html", {"groups": groups})


@home_router.get("/space")
def show_space(request: Request, context: ContextDep) -> Response:
    return render(request, "operations/space.html", {"space": measure_space(context)})


ERROR_STATUSES = {
    400: "The request cannot be read.",
    401: "The access token is missing or wrong.",
    403: "This token or user may not do this, or the request came from a page of another site.",
    404: "Not found. It may have been deleted.",
    409: "Not possible in the current state.",
    413: "The request body exceeds the limit.",
    415: "Unsupported file format.",
    421: "The server does not answer to this name.",
    422: "A value or the contents of a file are invalid; `field` names which.",
    429: "Too many uploads at once. Try again after `Retry-After` seconds.",
    500: "Isoscope failed. Find the cause in the server log under the number in `detail`.",
    503: "The storage or the database is busy or does not respond.",
    507: "A disk is full, or would have less free space than the reserve.",
}
PROBLEM_BODY: dict[str, Any] = {"application/json": {"schema": {"$ref": f"#/components/schemas/{Problem.__name__}"}}}
# In every route, FastAPI builds a validator for each status that has a model. So only status 500 has one, which adds
# the schema of ``Problem`` to the components; the others refer to it.
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"description": description, "content": PROBLEM_BODY} for status, description in ERROR_STATUSES.items()
}
RESPONSES[500] = {"description": ERROR_STATUSES[500], "model": Problem}


figures_router = APIRouter(tags=["figures"])


@figures_router.get("/experiments/{experiment_id}/figures")
def list_figures(context: ContextDep, experiment_id: str) -> list[str]:
    """The slugs of all figures that an experiment can have."""
    return list_figure_slugs(get_experiment(context, experiment_id))


@figures_router.get("/experiments/{experiment_id}/figures/{slug}")
def show_figure_of_experiment(context: ContextDep, experiment_id: str, slug: str, query: SweepDep) -> FigureOut:
    """A figure of an experiment."""
    return FigureOut.from_figure(read_figure(context, get_experiment(context, experiment_id), slug, query))


@figures_router.get("/runs/{run_id}/figures/{slug}")
def show_figure_of_run(
    context: ContextDep,
    run_id: str,
    slug: Annotated[str, Path(description=f"One of {', '.join(RUN_FIGURES)}.")],
    measure: str = "",
) -> FigureOut:
    """A figure of a run; `measure` is what its layers are drawn by."""
    return FigureOut.from_figure(read_run_figure(context, get_run(context, run_id), slug, measure))


@figures_router.get("/embeddings/{embedding_id}/figures/{slug}")
def show_figure_of_embedding(context: ContextDep, embedding_id: str, slug: str, query: ShrinkageDep) -> FigureOut:
    """A figure of an embedding's report, `zeta` among them."""
    figures = report_figures(context, get_embedding(context, embedding_id), slug, query)
    return FigureOut.from_figure(find_figure(figures, slug))


@figures_router.get("/embeddings/{embedding_id}/postprocessings/{postprocessing_id}/figures/{slug}")
def show_figure_of_trial(context: ContextDep, embedding_id: str, postprocessing_id: str, slug: str) -> FigureOut:
    """A figure of what a method changed, before and after."""
    trial = get_postprocessing(context, embedding_id, postprocessing_id)
    return FigureOut.from_figure(find_figure(trial_figures(trial), slug))


@figures_router.get("/tasks/{task_id}/figures/{slug}")
def show_figure_of_task(context: ContextDep, task_id: str, slug: str) -> FigureOut:
    """A figure of a task that has finished: `isotropy` or `bytes`; `embeddings` where it judged several."""
    return FigureOut.from_figure(find_figure(list_task_figures(context, task_id), slug))


@figures_router.get("/encodings/{encoding_id}/figures/{slug}")
def show_figure_of_encoding(context: ContextDep, encoding_id: str, slug: str, query: LayersDep) -> FigureOut:
    """A figure of an encoding's layers."""
    return FigureOut.from_figure(
        find_figure(build_layers_report(context, get_encoding(context, encoding_id), query).figures, slug)
    )


@figures_router.get("/compare/figures/{slug}")
def show_figure_of_comparison(context: ContextDep, slug: str, choice: ChoiceDep) -> FigureOut:
    """A figure with several embeddings in it, or of a series, such as `over-steps`, `changes` or `cka`."""
    return FigureOut.from_figure(find_figure(comparison_figures(context, choice, slug), slug))


@figures_router.get("/playground/figures/{slug}")
def show_figure_of_playground(slug: str, query: PlaygroundDep) -> FigureOut:
    """A figure of the playground at a position of its sliders."""
    return FigureOut.from_figure(find_figure(playground_figures(query), slug))


# Each router as ``module:name`` within ``app``. Imports would clash: many routers and modules have equal names.
API_ROUTERS = (
    "embeddings.api.embeddings:router",
    "embeddings.api.encodings:router",
    "embeddings.api.embeddings:tags_router",
    "embeddings.api.measures:readings_router",
    "embeddings.api.comparison:router",
    "embeddings.api.embeddings:trash_router",
    "embeddings.api.measures:router",
    "postprocess.api:router",
    "tasks.api:embedding_router",
    "tasks.api:router",
    "training.api.datasets:router",
    "training.api.queue:router",
    "results.api.across:runs_router",
    "results.api.experiments:archives_router",
    "results.api.experiments:router",
    "results.api.openings:router",
    "results.api.experiments:presets_router",
    "results.api.experiments:studies_router",
    "results.api.runs:router",
    "playground.api:playground_router",
    "operations.api:router",
    "operations.api:samples_router",
    "operations.api:health_router",
    "operations.api:access_router",
)
PAGE_ROUTERS = (
    "embeddings.pages.library:router",
    "embeddings.pages.library:trash_router",
    "embeddings.pages.report:description_router",
    "embeddings.pages.report:router",
    "embeddings.pages.report:report_router",
    "embeddings.pages.comparison:router",
    "embeddings.pages.encodings:router",
    "postprocess.pages:router",
    "tasks.pages:embedding_router",
    "tasks.pages:router",
    "training.pages.datasets:router",
    "training.pages.launch:router",
    "training.pages.queue:router",
    "results.pages.across:router",
    "results.pages.experiments:archives_router",
    "results.pages.experiments:description_router",
    "results.pages.experiments:router",
    "results.pages.runs:router",
    "results.pages.runs:buttons_router",
    "playground.pages:router",
    "documentation.pages:router",
    "operations.pages:router",
    "operations.pages:access_router",
)
_writer_limit = [Depends(limit_writers)]
api_router = APIRouter(prefix="/api", responses=RESPONSES, dependencies=_writer_limit)
pages_router = APIRouter(include_in_schema=False, dependencies=_writer_limit)
pages_router.include_router(home_router)
for _name in API_ROUTERS:
    api_router.include_router(resolve_name(f"app.{_name}"))
for _row_list in (EMBEDDINGS, RUNS, EXPERIMENTS):
    api_router.include_router(descriptions_api.actions_router(_row_list, _row_list.path.strip("/")))
for _name in PAGE_ROUTERS:
    pages_router.include_router(resolve_name(f"app.{_name}"))
api_router.include_router(figures_router)
pages_router.include_router(descriptions_pages.actions_router(RUNS))

router = APIRouter()
"""All routes, resolved once. FastAPI would resolve an included router again for each application."""
for _router in (api_router, security.router, pages_router):
    router.include_router(_router)
