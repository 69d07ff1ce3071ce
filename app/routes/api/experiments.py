"""Experiments over the API."""

from collections.abc import Sequence

from fastapi import APIRouter

from app.db.models import Experiment
from app.dependencies import ContextDep
from app.routes.api.schemas.experiments import ExperimentOut, ExperimentSummary
from app.routes.api.schemas.queue import MoveToEnd, PriorityIn
from app.services import experiments, pausing, turns
from app.services.sweeps import SweepRequest
from app.services.turns import Place

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
