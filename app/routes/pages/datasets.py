"""Data sets: list, upload, name a task of the Hub, look at the columns, delete."""

from typing import Annotated

from fastapi import APIRouter, File, Form, Request, Response, UploadFile

from app.context import Context
from app.db.hub_tasks import TASKS, HubName
from app.dependencies import ContextDep
from app.errors import InvalidError, IsoscopeError
from app.parsers import parsing
from app.problems import status_of
from app.routes.pages.answers import see
from app.services.datasets import (
    create_dataset,
    create_hub_dataset,
    delete_dataset,
    get_dataset,
    list_datasets,
)
from app.services.proposal import propose_for
from app.templating import templates

router = APIRouter(prefix="/datasets")


@router.get("")
def list_all(request: Request, context: ContextDep) -> Response:
    """All data sets, and the ways to add one."""
    return _list_page(request, context)


@router.post("")
@parsing
def upload_dataset(
    request: Request,
    context: ContextDep,
    train: Annotated[UploadFile | str | None, File()] = None,
    validation: Annotated[UploadFile | str | None, File()] = None,
    name: Annotated[str, Form()] = "",
) -> Response:
    """Add a train and a validation file."""
    try:
        first, second = _require_file(train, "train"), _require_file(validation, "validation")
        dataset = create_dataset(
            context, first.file, first.filename or "", second.file, second.filename or "", name or None
        )
    except IsoscopeError as error:
        return _list_page(request, context, error, name=name)
    return see(f"/datasets/{dataset.id}")


@router.post("/hub")
def name_hub_dataset(context: ContextDep, hub_name: Annotated[HubName, Form()]) -> Response:
    """Add a task of the Hub by its name."""
    return see(f"/datasets/{create_hub_dataset(context, hub_name).id}")


@router.get("/{dataset_id}")
def show_dataset(request: Request, context: ContextDep, dataset_id: str) -> Response:
    """What it looks like, its columns and sizes."""
    dataset = get_dataset(context, dataset_id)
    shown = {"dataset": dataset, "proposal": propose_for(dataset.hub_name, dataset.columns)}
    return templates.TemplateResponse(request, "dataset.html", shown)


@router.get("/{dataset_id}/delete")
def confirm_delete(request: Request, context: ContextDep, dataset_id: str) -> Response:
    """Ask before deleting."""
    dataset = get_dataset(context, dataset_id)
    shown = {
        "section": "data",
        "name": dataset.name,
        "loss": "Its files and the description of its columns are deleted. Experiments that use it prevent this.",
        "back": f"/datasets/{dataset_id}",
    }
    return templates.TemplateResponse(request, "confirm_delete.html", shown)


@router.post("/{dataset_id}/delete")
def delete(context: ContextDep, dataset_id: str) -> Response:
    """Delete it."""
    delete_dataset(context, dataset_id)
    return see("/datasets")


def _list_page(request: Request, context: Context, problem: IsoscopeError | None = None, name: str = "") -> Response:
    shown = {
        "datasets": [(each, propose_for(each.hub_name, each.columns)) for each in list_datasets(context)],
        "hub_tasks": TASKS,
        "max_bytes": context.settings.max_dataset_bytes,
        "problem": problem,
        "name": name,
    }
    status = status_of(problem) if problem else 200
    return templates.TemplateResponse(request, "datasets.html", shown, status_code=status)


def _require_file(upload: UploadFile | str | None, field: str) -> UploadFile:
    if upload is None or isinstance(upload, str) or not upload.filename:
        raise InvalidError(f"Expected a {field} file: choose one.", field)
    return upload
