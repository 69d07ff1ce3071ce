"""Searches for the best lambda and zeta over the API; what they become are experiments."""

from fastapi import APIRouter, Response

from app.db.models import Experiment
from app.dependencies import ContextDep
from app.routes.api.old_names import note_old_names
from app.routes.api.schemas.experiments import ExperimentOut
from app.services import studies
from app.services.studies import StudyRequest

router = APIRouter(prefix="/studies", tags=["experiments"])


@router.post("", status_code=201, response_model=ExperimentOut)
def create_study(context: ContextDep, response: Response, request: StudyRequest) -> Experiment:
    """Launch a search: the baseline of every seed, then trials of lambda and zeta that a worker asks Optuna for."""
    note_old_names(response, request)
    return studies.create_study(context, request)
