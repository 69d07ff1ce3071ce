"""Encodings: list, upload texts, choose model and columns, follow, read the report by layer, delete."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Request, Response, UploadFile
from fastapi.concurrency import run_in_threadpool

from app.context import Context
from app.db.encoding import EncodingConfig
from app.db.models import UNFINISHED_ENCODING, Encoding, EncodingStatus
from app.dependencies import ContextDep
from app.encodings.layers import LayersQuery, read_layers
from app.figures.layers import POOLING_TITLES
from app.parsers import parsing
from app.problems import status_of
from app.routes.pages.encoding_form import LABELS, Values, defaults, pairs_of, parse, read_values
from app.routes.pages.option_form import CHECKED, address_that_shows, controls_of, labelled
from app.routes.queries import LayersDep
from app.routes.responses import FileKind, figure_file, see
from app.services.datasets import list_datasets
from app.services.encoding_plan import EncodingPlan, plan_encoding
from app.services.encodings import (
    LAUNCHABLE,
    Split,
    cancel_encoding,
    create_encoding,
    create_encoding_of_dataset,
    delete_encoding,
    get_encoding,
    launch_encoding,
    list_encodings,
)
from app.services.models import list_models
from app.services.workers import list_workers
from app.templating import templates
from app.training.equivalent_commands import Server, Way, ways_of_encoding, ways_of_texts
from isoscope.core.errors import InvalidError, IsoscopeError
from isoscope.core.formatting import count
from isoscope.files.upload_formats import Role, suffixes

router = APIRouter(prefix="/encodings")


@router.get("")
def list_all(request: Request, context: ContextDep) -> Response:
    """All encodings, and the ways to begin one."""
    return _list_page(request, context)


@router.post("")
@parsing
def upload_texts(
    request: Request,
    context: ContextDep,
    file: Annotated[UploadFile | str | None, File()] = None,
    name: Annotated[str, Form()] = "",
) -> Response:
    """Keep a file of texts and go to its page, where model and columns are chosen."""
    try:
        if file is None or isinstance(file, str) or not file.filename:
            raise InvalidError("Expected a file of texts: choose one.", "file")
        encoding = create_encoding(context, file.file, file.filename, name or None)
    except IsoscopeError as error:
        error.field = error.field or "file"
        return _list_page(request, context, error, name)
    return see(f"/encodings/{encoding.id}")


@router.post("/of-dataset")
@parsing
def take_dataset(
    request: Request, context: ContextDep, dataset_id: Annotated[str, Form()], split: Annotated[Split, Form()]
) -> Response:
    """Take the texts of a data set that is here."""
    try:
        encoding = create_encoding_of_dataset(context, dataset_id, split)
    except InvalidError as error:
        return _list_page(request, context, error)
    return see(f"/encodings/{encoding.id}")


@router.get("/{encoding_id}")
def show_encoding(request: Request, context: ContextDep, encoding_id: str, query: LayersDep) -> Response:
    """The page of one encoding, whatever its state; it updates itself while a worker is busy with it."""
    return _page(request, context, encoding_id, query, read_values(request.query_params))


@router.post("/{encoding_id}/launch")
async def launch(request: Request, context: ContextDep, encoding_id: str, query: LayersDep) -> Response:
    """Hand it to the workers, or show the form again with the sentence at the field that is wrong."""
    values = read_values(await request.form())
    return await run_in_threadpool(_launch, request, context, encoding_id, query, values)


@router.post("/{encoding_id}/cancel")
def stop(context: ContextDep, encoding_id: str) -> Response:
    """Stop it."""
    cancel_encoding(context, encoding_id)
    return see(f"/encodings/{encoding_id}")


@router.get("/{encoding_id}/delete")
def confirm_delete(request: Request, context: ContextDep, encoding_id: str) -> Response:
    """Ask before deleting."""
    encoding = get_encoding(context, encoding_id)
    shown = {
        "section": "data",
        "name": encoding.name,
        "loss": "This deletes its texts and the embeddings and measures of all its layers.",
        "back": f"/encodings/{encoding_id}",
    }
    return templates.TemplateResponse(request, "confirm_delete.html", shown)


@router.post("/{encoding_id}/delete")
def delete(context: ContextDep, encoding_id: str) -> Response:
    """Delete it."""
    delete_encoding(context, encoding_id)
    return see("/encodings")


@router.get("/{encoding_id}/figures/{slug}.{kind}")
def show_figure(context: ContextDep, encoding_id: str, slug: str, kind: FileKind, query: LayersDep) -> Response:
    """A figure of the report by layer."""
    return figure_file(read_layers(context, get_encoding(context, encoding_id), query).figures, slug, kind)


def _launch(request: Request, context: Context, encoding_id: str, query: LayersQuery, values: Values) -> Response:
    try:
        launch_encoding(context, encoding_id, parse(values))
    except InvalidError as error:
        address = address_that_shows(f"/encodings/{encoding_id}", pairs_of(values))
        return see(address) if address else _page(request, context, encoding_id, query, values, error)
    return see(f"/encodings/{encoding_id}")


def _page(
    request: Request,
    context: Context,
    encoding_id: str,
    query: LayersQuery,
    values: Values,
    problem: IsoscopeError | None = None,
) -> Response:
    encoding = get_encoding(context, encoding_id)
    shown: dict[str, Any] = {"encoding": encoding, "pooling_titles": POOLING_TITLES}
    if encoding.status in LAUNCHABLE:
        models, checked = list_models(context.settings), CHECKED in request.query_params
        filled = defaults(encoding, models[0].name) | values
        plan = _preview(context, encoding, filled, ask_hub=checked)
        controls = controls_of(EncodingConfig, filled)
        controls["max_rows"] = replace(controls["max_rows"], note=f" The file has {count(encoding.n_texts)}.")
        if checked and isinstance(plan, IsoscopeError):
            problem = plan
        shown |= {"models": models, "values": filled, "controls": controls, "plan": plan}
        shown |= {"labels": LABELS, "ways": _ways(request, context, encoding_id, filled)}
    elif encoding.status in UNFINISHED_ENCODING:
        shown["workers"] = list_workers(context)
    elif encoding.status is EncodingStatus.FINISHED:
        shown |= {"layers": read_layers(context, encoding, query)}
    shown["problem"] = labelled(problem, LABELS) if problem else None
    status = status_of(problem) if problem and request.method == "POST" else 200
    return templates.TemplateResponse(request, "encoding.html", shown, status_code=status)


def _preview(context: Context, encoding: Encoding, values: Values, *, ask_hub: bool) -> EncodingPlan | IsoscopeError:
    """What the form would make as it stands, or why nothing."""
    try:
        return plan_encoding(context, encoding, parse(values), ask_hub=ask_hub)
    except IsoscopeError as error:
        return labelled(error, LABELS)


def _ways(request: Request, context: Context, encoding_id: str, values: Values) -> list[Way]:
    """Return the equivalent commands; none where the form means no configuration."""
    try:
        return ways_of_encoding(Server.of(request, context.settings), encoding_id, parse(values))
    except InvalidError:
        return []


def _list_page(request: Request, context: Context, problem: IsoscopeError | None = None, name: str = "") -> Response:
    shown = {
        "encodings": list_encodings(context),
        "datasets": [one for one in list_datasets(context) if one.train_sha256 is not None],
        "suffixes": suffixes(Role.TEXTS),
        "tables": suffixes(Role.ROWS),
        "max_bytes": context.settings.max_dataset_bytes,
        "problem": problem,
        "name": name,
        "ways": ways_of_texts(Server.of(request, context.settings), list_models(context.settings)[0].name),
    }
    status = status_of(problem) if problem else 200
    return templates.TemplateResponse(request, "encodings.html", shown, status_code=status)
