"""Experiments as files: one to take away, one that comes from another Isoscope."""

from typing import Annotated

from fastapi import APIRouter, File, Request, Response, UploadFile

from app.context import Context
from app.dependencies import ContextDep
from app.errors import InvalidError, IsoscopeError
from app.problems import status_of
from app.routes.downloads import export_of
from app.routes.pages.answers import see
from app.routes.sweep_query import SweepDep
from app.services.exports import export_experiment
from app.services.imports import import_experiment
from app.services.sweep_figures import all_figures
from app.templating import templates

router = APIRouter(prefix="/experiments")


@router.get("/import")
def show_import(request: Request, context: ContextDep) -> Response:
    """The form to import an experiment."""
    return _page(request, context)


@router.post("/import")
def import_file(
    request: Request, context: ContextDep, file: Annotated[UploadFile | str | None, File()] = None
) -> Response:
    """Add an exported experiment, or show the form again with what is wrong with the file."""
    try:
        if file is None or isinstance(file, str) or not file.filename:
            raise InvalidError("Expected the zip file of an exported experiment: choose one.", "file")
        experiment = import_experiment(context, file.file, file.filename)
    except IsoscopeError as error:
        return _page(request, context, error)
    return see(f"/experiments/{experiment.id}")


@router.get("/{experiment_id}/export.zip")
def export_file(context: ContextDep, experiment_id: str, query: SweepDep) -> Response:
    """All rows of an experiment and its figures as the page shows them."""
    return export_of(export_experiment(context, experiment_id, lambda one: all_figures(context, one, query)))


def _page(request: Request, context: Context, problem: IsoscopeError | None = None) -> Response:
    shown = {"max_bytes": context.settings.max_upload_bytes, "problem": problem}
    status = status_of(problem) if problem else 200
    return templates.TemplateResponse(request, "experiment_import.html", shown, status_code=status)
