"""Experiments as files: one to take away, one that comes from another Isoscope."""

from typing import Annotated, Literal

from fastapi import APIRouter, File, Form, Request, Response, UploadFile

from app.context import Context
from app.db.models import ImportStatus
from app.dependencies import ContextDep
from app.errors import InvalidError, IsoscopeError
from app.problems import status_of
from app.routes.downloads import export_of
from app.routes.pages.answers import see
from app.routes.sweep_query import SweepDep
from app.services.exports import export_experiment
from app.services.imports import cancel_import, create_import, get_import, list_imports
from app.services.sweep_figures import all_figures
from app.services.workers import list_workers
from app.templating import templates

router = APIRouter()


@router.get("/experiments/import")
def show_form(request: Request, context: ContextDep) -> Response:
    """Show the form to import an experiment, and the latest imports."""
    return _form(request, context)


@router.post("/experiments/import")
def import_file(
    request: Request, context: ContextDep, file: Annotated[UploadFile | str | None, File()] = None
) -> Response:
    """Import an exported experiment, or show the form again with what is wrong with the file."""
    try:
        if file is None or isinstance(file, str) or not file.filename:
            raise InvalidError("Expected the zip file of an exported experiment: choose one.", "file")
        row = create_import(context, file.file, file.filename)
    except IsoscopeError as error:
        return _form(request, context, error)
    return see(f"/imports/{row.id}")


@router.get("/imports/{import_id}")
def show_import(request: Request, context: ContextDep, import_id: str) -> Response:
    """Show how far an import is; once it has finished, the experiment."""
    row = get_import(context, import_id)
    if row.status is not ImportStatus.FINISHED:
        shown = {"row": row, "workers": list_workers(context), "max_bytes": context.settings.max_upload_bytes}
        return templates.TemplateResponse(request, "import.html", shown)
    path = "/experiments" if row.experiment_id is None else f"/experiments/{row.experiment_id}"
    if "hx-request" in request.headers:  # a redirect would be followed, and its page put inside of this one
        return Response(headers={"HX-Redirect": path})
    return see(path)


@router.post("/imports/{import_id}/cancel")
def stop_import(context: ContextDep, import_id: str, back: Annotated[Literal["queue", ""], Form()] = "") -> Response:
    """Cancel an import; ``back`` leads to the queue."""
    cancel_import(context, import_id)
    return see("/queue" if back else f"/imports/{import_id}")


@router.get("/experiments/{experiment_id}/export.zip")
def export_file(context: ContextDep, experiment_id: str, query: SweepDep) -> Response:
    """All rows of an experiment and its figures as the page shows them."""
    return export_of(export_experiment(context, experiment_id, lambda one: all_figures(context, one, query)))


def _form(request: Request, context: Context, problem: IsoscopeError | None = None) -> Response:
    shown = {
        "max_bytes": context.settings.max_upload_bytes,
        "problem": problem,
        "imports": [one for one in list_imports(context) if one.status is not ImportStatus.FINISHED],
    }
    status = status_of(problem) if problem else 200
    return templates.TemplateResponse(request, "experiment_import.html", shown, status_code=status)
