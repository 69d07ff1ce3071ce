"""Experiments, searches, and presets to launch them from."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import Field

from app.db.models import Experiment, ExperimentOrigin, RunStatus
from app.db.reported_config import AnyConfig
from app.db.study import Search
from app.dependencies import ContextDep
from app.results.sweep import Sweep
from app.routes.api.common import TOTAL, Limit, Offset, Row
from app.routes.api.conclusion import ConclusionOut
from app.routes.api.old_names import note_old_names
from app.routes.api.queue import MoveToEnd, PriorityIn
from app.routes.api.runs import ExtentOut, RunFound, RunOfExperiment, RunsQ, RunsSort, answer
from app.services import experiments, pausing, run_search, studies, turns
from app.services.conclusions import read_conclusion
from app.services.experiment_list import Listed, list_summaries
from app.services.library import PAGE_ROWS
from app.services.presets import PRESETS, Stage
from app.services.relaunch import request_of
from app.services.run_search import RunQuery
from app.services.studies import StudyRequest
from app.services.sweeps import SweepRequest
from app.services.turns import Place


class PresetOut(Row):
    """The settings of a stage of a paper."""

    slug: Stage
    title: str
    paper: str
    what: str
    settings: Annotated[dict[str, Any], Field(description="Fields for the body of `POST /api/experiments`.")]
    models: Annotated[list[str], Field(description="Those of the paper, by their names on the Hub.")]
    differs: Annotated[list[str], Field(description="Where text and code disagree, and which is followed.")]


class ExperimentHead(Row):
    """An experiment without its runs."""

    id: str
    name: str
    dataset_id: str
    config: AnyConfig
    grid: dict[str, list[Any]]
    origin: ExperimentOrigin
    study: Search | None = Field(description="Parameters and status of a search.")
    created_at: datetime
    status: RunStatus


class ExperimentOut(ExperimentHead):
    """An experiment and its runs."""

    runs: list[RunOfExperiment]


class ExperimentSummary(ExperimentHead):
    """An experiment in a list of them, its runs in numbers."""

    dataset: str = Field(description="Name of its data set.")
    total: int = Field(description="Runs it has.")
    counts: dict[RunStatus, int] = Field(description="Runs in each state.")
    performance: ExtentOut = Field(description="By the metric of the configuration.")


router = APIRouter(prefix="/experiments", tags=["experiments"])

OF_THE_ROW = ExperimentHead.model_fields.keys() - {"status"}


@router.get("", responses=TOTAL)
def list_experiments(
    context: ContextDep, response: Response, q: RunsQ = "", limit: Limit = PAGE_ROWS, offset: Offset = 0
) -> list[ExperimentSummary]:
    """Experiments with a run that is searched for, newest first; how many is in the header `X-Total-Count`."""
    found = list_summaries(context, q.strip(), limit=limit, offset=offset)
    response.headers["X-Total-Count"] = str(found.total)
    return [_summary(one) for one in found.rows]


def _summary(one: Listed) -> ExperimentSummary:
    experiment, dataset = one.experiment, one.experiment.dataset
    return ExperimentSummary(
        **{name: getattr(experiment, name) for name in OF_THE_ROW},
        status=one.status,
        dataset=dataset.name,
        total=one.total,
        counts=one.counts,
        performance=one.performance,
    )


@router.post("", status_code=201, response_model=ExperimentOut)
def create_experiment(context: ContextDep, response: Response, request: SweepRequest) -> Experiment:
    """Launch a sweep: every setting of the grid, each with its baseline, regularizers and lambdas, for every seed.

    A header `X-Isoscope-Note` says which options of the request are called otherwise now.
    """
    note_old_names(response, request)
    return experiments.create_experiment(context, request)


@router.get("/{experiment_id}", response_model=ExperimentOut)
def show_experiment(context: ContextDep, experiment_id: str) -> Experiment:
    """One experiment and how far its runs are."""
    return experiments.get_experiment(context, experiment_id)


@router.get("/{experiment_id}/request")
def show_request(context: ContextDep, experiment_id: str) -> SweepRequest | StudyRequest:
    """What launches the same again, here or elsewhere: `POST /api/experiments` takes it, of a search `/api/studies`."""
    return request_of(experiments.get_experiment(context, experiment_id))


@router.get("/{experiment_id}/runs", responses=TOTAL)
def list_runs(
    context: ContextDep,
    response: Response,
    experiment_id: str,
    q: RunsQ = "",
    sort: RunsSort = "",
    limit: Limit = PAGE_ROWS,
    offset: Offset = 0,
) -> list[RunFound]:
    """Those of its runs that are searched for, as they were planned unless sorted otherwise."""
    experiments.get_experiment_alone(context, experiment_id)
    query = RunQuery.of(q, sort)
    return answer(
        run_search.list_runs(context, query, limit=limit, offset=offset, experiment_id=experiment_id), response
    )


@router.get("/{experiment_id}/conclusion", response_model=ConclusionOut)
def show_conclusion(context: ContextDep, experiment_id: str) -> ConclusionOut:
    """Whether performance goes with isotropy, whether settings differ, and each lambda against lambda = 0."""
    experiment = experiments.get_experiment(context, experiment_id)
    return ConclusionOut.of(read_conclusion(context, Sweep.of(experiment)))


@router.post("/{experiment_id}/cancel", response_model=ExperimentOut)
def cancel_experiment(context: ContextDep, experiment_id: str) -> Experiment:
    """Cancel all its runs that have not ended."""
    return experiments.cancel_experiment(context, experiment_id)


@router.post("/{experiment_id}/pause", response_model=ExperimentOut)
def pause_experiment(context: ContextDep, experiment_id: str) -> Experiment:
    """Put all its runs that wait or run aside, until they are resumed."""
    return pausing.pause_experiment(context, experiment_id)


@router.post("/{experiment_id}/resume", response_model=ExperimentOut)
def resume_experiment(context: ContextDep, experiment_id: str) -> Experiment:
    """Have all its paused runs go on, when their turns come."""
    return pausing.resume_experiment(context, experiment_id)


@router.post("/{experiment_id}/move", response_model=ExperimentOut)
def move_experiment(context: ContextDep, experiment_id: str, move: MoveToEnd) -> Experiment:
    """Move its queued runs before or behind all others that wait."""
    return turns.move_experiment(context, experiment_id, Place(move.to))


@router.put("/{experiment_id}/priority", response_model=ExperimentOut)
def set_priority(context: ContextDep, experiment_id: str, priority: PriorityIn) -> Experiment:
    """Give all its runs that have not ended one number: of waiting runs those with lower ones go first."""
    return turns.set_experiment_priority(context, experiment_id, priority.priority)


@router.delete("/{experiment_id}", status_code=204)
def delete_experiment(context: ContextDep, experiment_id: str) -> None:
    """Delete an experiment whose runs have all ended."""
    experiments.delete_experiment(context, experiment_id)


studies_router = APIRouter(prefix="/studies", tags=["experiments"])


@studies_router.post("", status_code=201, response_model=ExperimentOut)
def create_study(context: ContextDep, response: Response, request: StudyRequest) -> Experiment:
    """Launch a search: the baseline of every seed, then trials of lambda and zeta that a worker asks Optuna for."""
    note_old_names(response, request)
    return studies.create_study(context, request)


presets_router = APIRouter(prefix="/presets", tags=["experiments"])


@presets_router.get("")
def list_presets() -> list[PresetOut]:
    """The settings of both papers by stage. Name, data set, columns, task and model are to be added."""
    return [PresetOut.model_validate({"slug": slug} | preset._asdict()) for slug, preset in PRESETS.items()]
