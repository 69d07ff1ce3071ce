"""Experiments as files over the API."""

from typing import Annotated

from fastapi import APIRouter, File, UploadFile
from fastapi.responses import StreamingResponse

from app.db.models import Experiment
from app.dependencies import ContextDep
from app.routes.api.schemas.experiments import ExperimentOut
from app.routes.downloads import DOCUMENTED, export_of
from app.routes.sweep_query import SweepDep
from app.services.exports import export_experiment
from app.services.imports import import_experiment
from app.services.sweep_figures import all_figures

router = APIRouter(prefix="/experiments", tags=["experiments"])


@router.post("/import", status_code=201, response_model=ExperimentOut)
def import_file(
    context: ContextDep, file: Annotated[UploadFile, File(description="What `export` of another Isoscope wrote.")]
) -> Experiment:
    """Add an experiment that was exported elsewhere, with all its rows, under a new id; the same twice is refused."""
    return import_experiment(context, file.file, file.filename or "")


@router.get("/{experiment_id}/export", **DOCUMENTED)
def export_file(context: ContextDep, experiment_id: str, query: SweepDep) -> StreamingResponse:
    """The experiment as a zip file: rows, every logged step, settings, environment, figures; no trained models."""
    return export_of(export_experiment(context, experiment_id, lambda one: all_figures(context, one, query)))
