"""Runs over the API."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import FileResponse

from app.db.models import Run
from app.dependencies import ContextDep
from app.routes.api.schemas.experiments import ActivationOut, RunOut
from app.routes.downloads import DOCUMENTED, file_of
from app.services import runs
from app.services.files import get_model
from app.services.run_data import get_activation

router = APIRouter(prefix="/runs", tags=["runs"])


@router.get("/{run_id}", response_model=RunOut)
def show_run(context: ContextDep, run_id: str) -> Run:
    """One run with its configuration, results, environment and logged steps."""
    return runs.get_run(context, run_id)


@router.get("/{run_id}/model", **DOCUMENTED)
def download_model(context: ContextDep, run_id: str) -> FileResponse:
    """The trained model of a run whose configuration says `export`: a zip file of weights, tokenizer and model card."""
    return file_of(get_model(context, run_id))


@router.get("/{run_id}/activation", response_model=ActivationOut)
def show_activation(context: ContextDep, run_id: str) -> dict[str, Any]:
    """Mean and standard deviation of each dimension of the trained model's sentence vectors, on the validation rows."""
    return get_activation(context, run_id)


@router.post("/{run_id}/cancel", response_model=RunOut)
def cancel_run(context: ContextDep, run_id: str) -> Run:
    """Cancel a run that waits or runs."""
    return runs.cancel_run(context, run_id)
