"""Experiments over the API."""

from collections.abc import Sequence

from fastapi import APIRouter

from app.conclusion.conclusion import Conclusion
from app.db.models import Experiment
from app.dependencies import ContextDep
from app.figures.sweep import Sweep
from app.routes.api.schemas.conclusion import ConclusionOut
from app.routes.api.schemas.experiments import ExperimentOut, ExperimentSummary
from app.services import experiments
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


@router.get("/{experiment_id}/conclusion", response_model=ConclusionOut)
def show_conclusion(context: ContextDep, experiment_id: str) -> ConclusionOut:
    """Whether isotropy and performance go together over its runs, and every lambda against lambda = 0."""
    return ConclusionOut.of(Conclusion(Sweep.of(experiments.get_experiment(context, experiment_id))))


@router.post("/{experiment_id}/cancel", response_model=ExperimentOut)
def cancel_experiment(context: ContextDep, experiment_id: str) -> Experiment:
    """Cancel all its runs that have not ended."""
    return experiments.cancel_experiment(context, experiment_id)


@router.delete("/{experiment_id}", status_code=204)
def delete_experiment(context: ContextDep, experiment_id: str) -> None:
    """Delete an experiment whose runs have all ended."""
    experiments.delete_experiment(context, experiment_id)
