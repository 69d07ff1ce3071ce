"""Experiments as files over the API."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, File, Response, UploadFile
from fastapi.responses import StreamingResponse
from pydantic import Field

from app.db.models import Import, ImportStatus
from app.dependencies import ContextDep
from app.routes.api.common import Row
from app.routes.queries import SweepDep
from app.routes.responses import DOCUMENTED, export_of
from app.services import imports
from app.services.exports import export_experiment
from app.services.sweep_figures import all_figures


class ImportOut(Row):
    """An exported experiment on its way in."""

    id: str
    filename: str
    status: Annotated[ImportStatus, Field(description="The experiment is visible once this is `finished`.")]
    done: Annotated[int, Field(description="Rows written so far: runs, steps and data of figures.")]
    total: Annotated[int | None, Field(description="Rows to write; null until the file has been checked.")]
    error: str | None
    page: Annotated[str | None, Field(description="Path of the page that `error` refers to.")]
    experiment_id: Annotated[str | None, Field(description="Null once the experiment has been deleted.")]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


router = APIRouter(tags=["experiments"])


@router.post("/experiments/import", status_code=202, response_model=ImportOut)
def import_file(
    context: ContextDep,
    response: Response,
    file: Annotated[UploadFile, File(description="What `export` of another Isoscope wrote.")],
) -> Import:
    """Import an experiment that was exported elsewhere. A worker checks and writes it; `Location` says how far it is.

    The experiment appears under a new id once all its rows are written. Importing the same one twice fails.
    """
    row = imports.create_import(context, file.file, file.filename or "")
    response.headers["Location"] = f"/api/imports/{row.id}"
    return row


@router.get("/experiments/{experiment_id}/export", **DOCUMENTED)
def export_file(context: ContextDep, experiment_id: str, query: SweepDep) -> StreamingResponse:
    """The experiment as a zip file: rows, every logged step, settings, environment, figures; no trained models."""
    return export_of(export_experiment(context, experiment_id, lambda one: all_figures(context, one, query)))


@router.get("/imports", response_model=list[ImportOut])
def list_imports(context: ContextDep) -> Sequence[Import]:
    """List the 20 latest imports, newest first."""
    return imports.list_imports(context)


@router.get("/imports/{import_id}", response_model=ImportOut)
def show_import(context: ContextDep, import_id: str) -> Import:
    """Show how far an import is, or why it failed."""
    return imports.get_import(context, import_id)


@router.post("/imports/{import_id}/cancel", response_model=ImportOut)
def cancel_import(context: ContextDep, import_id: str) -> Import:
    """Cancel a queued or running import and remove what it has written."""
    return imports.cancel_import(context, import_id)
