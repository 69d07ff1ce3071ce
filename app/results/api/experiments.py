"""Experiments over the API: launch, search, describe, steer, delete, export and import."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, File, Response, UploadFile
from fastapi.responses import StreamingResponse
from pydantic import Field

from app.context import Context
from app.db.models import Experiment, ExperimentOrigin, Import, ImportStatus, Run, RunStatus
from app.db.reported_config import AnyConfig
from app.db.study import Search
from app.descriptions.service import DescriptionChange
from app.results import exchange
from app.results.api.conclusion import ConclusionOut
from app.results.api.runs import FoundRunOut, RunsQ, RunsSort, RunSummary
from app.results.conclusion.conclusion import read_conclusion
from app.results.rounds import SeedRequest, add_seeds
from app.results.run_table import RunTable
from app.results.search import listing
from app.results.search.listing import ExperimentFilter, PerformanceSpread, RunQuery
from app.results.sweep_figures import SweepDep, read_all_figures
from app.training import experiments, queue_verbs
from app.training.api.queue import MoveToEnd, PriorityIn
from app.training.experiments import StudyRequest
from app.training.presets import PRESETS, Stage
from app.training.queue_verbs import QueueMove
from app.training.relaunch import request_of
from app.training.sweep_preview import SweepPreview, preview_sweep
from app.training.sweeps import SweepRequest, plan_sweep
from app.web.dependencies import TOTAL, ContextDep, PagingDep, Row
from app.web.responses import FILE_RESPONSE, stream_download
from app.web.uploads import to_incoming


class PresetOut(Row):
    """The settings of a stage of a paper."""

    slug: Stage
    title: str
    paper: str
    what: str
    settings: Annotated[dict[str, Any], Field(description="Fields for the body of `POST /api/experiments`.")]
    models: Annotated[list[str], Field(description="Models of the paper, by their names on the Hub.")]
    differs: Annotated[list[str], Field(description="Where text and code disagree, and which is followed.")]


class ExperimentHead(Row):
    """An experiment without its runs."""

    id: str
    name: str
    notes: str
    tags: Annotated[list[str], Field(validation_alias="tag_names")]
    dataset_id: str
    config: AnyConfig
    grid: dict[str, list[Any]]
    origin: ExperimentOrigin
    study: Search | None = Field(description="Parameters and status of a search.")
    created_at: datetime
    held: str | None = Field(description="Why a worker paused its waiting runs; null once they are resumed.")
    status: RunStatus


class ExperimentOut(ExperimentHead):
    """An experiment and its runs."""

    runs: list[RunSummary]


class ExperimentSummary(ExperimentHead):
    """An experiment in a list, with counts of its runs."""

    dataset: str = Field(description="Name of its data set.")
    total: int = Field(description="Number of runs.")
    counts: dict[RunStatus, int] = Field(description="Number of runs in each state.")
    performance: PerformanceSpread = Field(description="In the metric of the configuration.")


router = APIRouter(prefix="/experiments", tags=["experiments"])

# Fields that a list copies from experiments. Their status comes from counts of runs, which are not loaded.
HEAD_COLUMNS = ExperimentHead.model_fields.keys() - {"status", "tags"}


@router.get("", responses=TOTAL)
def list_experiments(context: ContextDep, paging: PagingDep, q: RunsQ = "", tag: str = "") -> list[ExperimentSummary]:
    """Experiments with a run that matches the search, newest first. `X-Total-Count` has the number of all matches."""
    criteria = ExperimentFilter(tag.strip())
    page = listing.list_experiments(context, q.strip(), criteria, limit=paging.limit, offset=paging.offset)
    paging.set_total(page.total)
    return [
        ExperimentSummary(
            **{name: getattr(row.experiment, name) for name in HEAD_COLUMNS},
            tag_names=row.experiment.tag_names,
            status=row.status,
            dataset=row.experiment.dataset.name,
            total=row.n_runs,
            counts=row.counts,
            performance=row.performance,
        )
        for row in page.rows
    ]


@router.post("", status_code=201, response_model=ExperimentOut)
def create_experiment(context: ContextDep, request: SweepRequest) -> Experiment:
    """Launch a sweep: every setting of the grid, each with its baseline, regularizers and lambdas, for every seed."""
    return experiments.create_experiment(context, request)


@router.post("/plan")
def plan_experiment(context: ContextDep, request: SweepRequest) -> SweepPreview:
    """Preview a sweep without launching it: runs, steps, estimated time, and eight rows as the model reads them."""
    return preview_sweep(context, plan_sweep(context, request))


@router.get("/{experiment_id}", response_model=ExperimentOut)
def show_experiment(context: ContextDep, experiment_id: str) -> Experiment:
    """An experiment and the progress of its runs."""
    return experiments.get_experiment(context, experiment_id)


@router.patch("/{experiment_id}", response_model=ExperimentOut)
def describe_experiment(context: ContextDep, experiment_id: str, change: DescriptionChange) -> Experiment:
    """Change the name, notes or tags of an experiment."""
    return experiments.describe_experiment(context, experiment_id, change)


@router.get("/{experiment_id}/request")
def show_request(context: ContextDep, experiment_id: str) -> SweepRequest | StudyRequest:
    """The request that launches the experiment again: for `POST /api/experiments`, or `/api/studies` of a search."""
    return request_of(experiments.get_experiment(context, experiment_id))


@router.get("/{experiment_id}/runs", response_model=list[FoundRunOut], responses=TOTAL)
def list_runs(
    context: ContextDep, paging: PagingDep, experiment_id: str, q: RunsQ = "", sort: RunsSort = ""
) -> list[Run]:
    """Runs of an experiment that match the search, in planned order by default."""
    experiments.get_experiment_without_runs(context, experiment_id)
    query = RunQuery.parse(q, sort)
    page = listing.list_runs(context, query, limit=paging.limit, offset=paging.offset, experiment_id=experiment_id)
    paging.set_total(page.total)
    return page.runs


@router.get("/{experiment_id}/conclusion", response_model=ConclusionOut)
def show_conclusion(context: ContextDep, experiment_id: str) -> ConclusionOut:
    """Whether performance is related to isotropy, whether settings differ, and each lambda against lambda = 0."""
    experiment = experiments.get_experiment(context, experiment_id)
    return ConclusionOut.from_conclusion(read_conclusion(context, RunTable.from_experiment(experiment)))


def _command_endpoint(command: Callable[[Context, str], Experiment]) -> Callable[..., Experiment]:
    def endpoint(context: ContextDep, experiment_id: str) -> Experiment:
        return command(context, experiment_id)

    return endpoint


# The pages have a button for each command.
EXPERIMENT_COMMANDS: Mapping[str, tuple[Callable[[Context, str], Experiment], str]] = {
    "cancel": (experiments.cancel_experiment, "Cancel all its runs that have not ended."),
    "pause": (queue_verbs.pause_experiment, "Pause all its queued and running runs until they are resumed."),
    "resume": (queue_verbs.resume_experiment, "Resume all its paused runs when their turns come."),
    "retry": (
        queue_verbs.retry_experiment,
        "Retry its failed runs: from their last checkpoints, or from the start where none is left.",
    ),
}
for _verb, (_command, _description) in EXPERIMENT_COMMANDS.items():
    router.post(
        f"/{{experiment_id}}/{_verb}",
        response_model=ExperimentOut,
        name=f"{_verb}_experiment",
        description=_description,
    )(_command_endpoint(_command))


@router.post("/{experiment_id}/seeds", status_code=201, response_model=ExperimentOut)
def add_more_seeds(context: ContextDep, experiment_id: str, request: SeedRequest) -> Experiment:
    """Add seeds to the settings without a verdict and to their baselines, as `more_seeds` of its conclusion proposes.

    Verdicts appear when the new runs have ended, at the level of one more look.
    """
    return add_seeds(context, experiment_id, request)


@router.post("/{experiment_id}/move", response_model=ExperimentOut)
def move_experiment(context: ContextDep, experiment_id: str, move: MoveToEnd) -> Experiment:
    """Move its queued runs to the front or the end of the queue."""
    return queue_verbs.move_experiment(context, experiment_id, QueueMove(move.to))


@router.put("/{experiment_id}/priority", response_model=ExperimentOut)
def set_priority(context: ContextDep, experiment_id: str, priority: PriorityIn) -> Experiment:
    """Set the priority of all its unfinished runs. Waiting runs with lower numbers start first."""
    return queue_verbs.set_experiment_priority(context, experiment_id, priority.priority)


@router.delete("/{experiment_id}", status_code=204)
def delete_experiment(context: ContextDep, experiment_id: str) -> None:
    """Delete an experiment whose runs have all ended."""
    experiments.delete_experiment(context, experiment_id)


studies_router = APIRouter(prefix="/studies", tags=["experiments"])


@studies_router.post("", status_code=201, response_model=ExperimentOut)
def create_study(context: ContextDep, request: StudyRequest) -> Experiment:
    """Launch a search: the baseline of every seed, then trials of lambda and zeta that Optuna chooses."""
    return experiments.create_study(context, request)


presets_router = APIRouter(prefix="/presets", tags=["experiments"])


@presets_router.get("")
def list_presets() -> list[PresetOut]:
    """The settings of both papers by stage. Add name, data set, columns, task and model."""
    return [PresetOut.model_validate({"slug": slug} | preset._asdict()) for slug, preset in PRESETS.items()]


class ImportOut(Row):
    """The import of an exported experiment."""

    id: str
    filename: str
    status: Annotated[ImportStatus, Field(description="The experiment is visible once this is `finished`.")]
    done: Annotated[int, Field(description="Rows written so far: runs, steps and data of figures.")]
    total: Annotated[int | None, Field(description="Rows to write; null until the file has been checked.")]
    error: str | None
    page: Annotated[str | None, Field(description="Path of the page that `error` refers to.")]
    experiment_id: Annotated[str | None, Field(description="Null once the experiment has been deleted.")]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


archives_router = APIRouter(tags=["experiments"])


@archives_router.post("/experiments/import", status_code=202, response_model=ImportOut)
def import_file(
    context: ContextDep,
    response: Response,
    file: Annotated[UploadFile, File(description="The zip file of an exported experiment.")],
) -> Import:
    """Import an exported experiment. A worker checks and writes it; `Location` is the address of its progress.

    The experiment appears under a new id once all its rows are written. Importing the same one twice fails.
    """
    row = exchange.create_import(context, to_incoming(file))
    response.headers["Location"] = f"/api/imports/{row.id}"
    return row


@archives_router.get("/experiments/{experiment_id}/export", **FILE_RESPONSE)
def export_file(context: ContextDep, experiment_id: str, query: SweepDep) -> StreamingResponse:
    """The experiment as a zip file: rows, every logged step, settings, environment, figures; no trained models."""
    read_figures = partial(read_all_figures, context, query=query)
    archive = exchange.export_experiment(context, experiment_id, read_figures)
    return stream_download(archive.filename, archive.size_bytes, archive.blocks())


@archives_router.get("/imports", response_model=list[ImportOut])
def list_imports(context: ContextDep) -> Sequence[Import]:
    """List the 20 latest imports, newest first."""
    return exchange.list_imports(context)


@archives_router.get("/imports/{import_id}", response_model=ImportOut)
def show_import(context: ContextDep, import_id: str) -> Import:
    """Show the progress of an import, or why it failed."""
    return exchange.get_import(context, import_id)


@archives_router.post("/imports/{import_id}/cancel", response_model=ImportOut)
def cancel_import(context: ContextDep, import_id: str) -> Import:
    """Cancel a queued or running import and remove what it has written."""
    return exchange.cancel_import(context, import_id)
