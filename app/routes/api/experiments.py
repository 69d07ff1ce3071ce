"""Experiments over the API."""

from fastapi import APIRouter, Response

from app.db.models import Experiment
from app.dependencies import ContextDep
from app.routes.api.paging import TOTAL, Limit, Offset
from app.routes.api.run_list import RunsQ, RunsSort, answer
from app.routes.api.schemas.experiments import ExperimentHead, ExperimentOut, ExperimentSummary, RunFound
from app.services import experiments, run_search
from app.services.experiment_list import Summary, list_summaries
from app.services.library import PAGE_ROWS
from app.services.relaunch import request_of
from app.services.run_search import RunQuery
from app.services.sweeps import SweepRequest

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


def _summary(one: Summary) -> ExperimentSummary:
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
def create_experiment(context: ContextDep, request: SweepRequest) -> Experiment:
    """Launch a sweep: every setting of the grid, each with its baseline, regularizers and lambdas, for every seed."""
    return experiments.create_experiment(context, request)


@router.get("/{experiment_id}", response_model=ExperimentOut)
def show_experiment(context: ContextDep, experiment_id: str) -> Experiment:
    """One experiment and how far its runs are."""
    return experiments.get_experiment(context, experiment_id)


@router.get("/{experiment_id}/request")
def show_request(context: ContextDep, experiment_id: str) -> SweepRequest:
    """The request that launches the same runs again, here or elsewhere: `POST /api/experiments` takes it."""
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


@router.post("/{experiment_id}/cancel", response_model=ExperimentOut)
def cancel_experiment(context: ContextDep, experiment_id: str) -> Experiment:
    """Cancel all its runs that have not ended."""
    return experiments.cancel_experiment(context, experiment_id)


@router.delete("/{experiment_id}", status_code=204)
def delete_experiment(context: ContextDep, experiment_id: str) -> None:
    """Delete an experiment whose runs have all ended."""
    experiments.delete_experiment(context, experiment_id)
