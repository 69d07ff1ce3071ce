"""Experiments over the API."""

from collections.abc import Sequence

from fastapi import APIRouter

from app.db.models import Experiment
from app.dependencies import ContextDep
from app.routes.api.schemas.experiments import ExperimentOut, ExperimentSummary
from app.services import experiments
from app.services.relaunch import request_of
from app.services.sweeps import SweepRequest

router = APIRouter(prefix="/experiments", tags=["experiments"])


@router.get("", response_model=list[ExperimentSummary])
def list_experiments(context: ContextDep) -> Sequence[Experiment]:
    """All experiments, newest first."""
    return experiments.list_experiments(context)


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


@router.post("/{experiment_id}/cancel", response_model=ExperimentOut)
def cancel_experiment(context: ContextDep, experiment_id: str) -> Experiment:
    """Cancel all its runs that have not ended."""
    return experiments.cancel_experiment(context, experiment_id)


@router.delete("/{experiment_id}", status_code=204)
def delete_experiment(context: ContextDep, experiment_id: str) -> None:
    """Delete an experiment whose runs have all ended."""
    experiments.delete_experiment(context, experiment_id)
