"""Encodings: list, upload texts, fill in the form, follow, read the report by layer, delete."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Request, Response, UploadFile
from pydantic import ValidationError
from starlette.datastructures import ImmutableMultiDict

from app.context import Context
from app.core.validation_messages import wrong_fields
from app.db.encoding import EncodingConfig
from app.db.models import UNFINISHED_ENCODING, Embedding, Encoding, EncodingStatus
from app.db.options.option import options_of
from app.embeddings.service import tasks_lost
from app.encodings import service
from app.encodings.beir import queries_of
from app.encodings.figures import POOLING_TITLES
from app.encodings.layers import LayersDep, LayersQuery, read_layers
from app.training.datasets import list_datasets
from app.training.models import list_models
from app.training.option_form import CHECKED, address_that_shows, controls_of, labelled, meaning, text_of
from app.training.queue_status import list_workers
from app.training.relaunch import Server, Way, ways_of_encoding, ways_of_texts
from app.web.dependencies import ContextDep, FormDep
from app.web.responses import FileKind, figure_file, render, see
from app.web.templating import confirm_deletion
from app.web.uploads import chosen, parsing
from isoscope.core.beir_layout import ZIP_SUFFIX
from isoscope.core.errors import InvalidError, IsoscopeError, invalid
from isoscope.core.formatting import count
from isoscope.files.row_ids import id_column
from isoscope.files.upload_formats import Role, suffixes

Values = dict[str, Any]
"""Texts by field; of ``LISTS`` lists of them."""

FIELDS = EncodingConfig.model_fields
LISTS = ("text_columns", "poolings")
LABELS = {name: option.label for name, option in options_of(EncodingConfig).items()}


def defaults(encoding: Encoding, model: str) -> Values:
    """Return what the form starts with: what was launched before, or the usual settings and the likeliest columns."""
    if encoding.config is not None:
        return _texts(encoding.config.model_dump(mode="json"))
    usual = _texts({name: field.get_default() for name, field in FIELDS.items() if not field.is_required()})
    ids = id_column(column.name for column in encoding.columns)
    columns = [column for column in encoding.columns if column.name != ids] or encoding.columns
    names = [column.name for column in columns]
    by_kind = {kind: [c.name for c in columns if c.kind == kind] for kind in ("label", "text")}
    text = (by_kind["text"] or names)[:1]
    label = next((name for name in by_kind["label"] if name not in text), "")
    # Documents that are not drawn are missing to the queries.
    all_rows = {"max_rows": ""} if encoding.qrels else {}
    return usual | {"model": model, "text_columns": text, "label_column": label} | all_rows


def read_values(data: ImmutableMultiDict[str, Any]) -> Values:
    """Return the fields of a submitted form, or of a query string that has been one; else nothing."""
    if "model" not in data:
        return {}
    values: Values = {name: str(data[name]).strip() for name in FIELDS if name in data and name not in LISTS}
    return values | {name: [str(one) for one in data.getlist(name) if one] for name in LISTS}


def pairs_of(values: Values) -> list[tuple[str, str]]:
    """Return the fields of a form that ``read_values`` reads as these values."""
    return [(name, one) for name, some in values.items() for one in (some if name in LISTS else [some])]


def parse(values: Values) -> EncodingConfig:
    """Return the configuration that the texts mean. Raises InvalidError with every field that means nothing."""
    given = {name: value if name in LISTS else meaning(FIELDS[name], value) for name, value in values.items()}
    try:
        return EncodingConfig.model_validate(given)
    except ValidationError as error:
        raise invalid(wrong_fields(error)) from error


def _texts(config: Mapping[str, Any]) -> Values:
    return {name: list(map(str, config[name])) if name in LISTS else text_of(config[name]) for name in config}


router = APIRouter(prefix="/encodings")


@router.get("")
def list_all(request: Request, context: ContextDep) -> Response:
    return _list_page(request, context)


@router.post("")
@parsing
def upload_texts(
    request: Request,
    context: ContextDep,
    file: Annotated[list[UploadFile | str] | None, File()] = None,
    name: Annotated[str, Form()] = "",
) -> Response:
    """Keep a file of texts, or a BEIR data set, and go to its page, where model and columns are chosen."""
    files = [*filter(None, map(chosen, file or []))]
    try:
        if not files:
            raise InvalidError("Expected a file of texts: choose one.", "file")
        encoding = service.create_encoding(context, files, name or None)
    except IsoscopeError as error:
        error.field = error.field or "file"
        return _list_page(request, context, error, name)
    return see(f"/encodings/{encoding.id}")


@router.post("/of-dataset")
@parsing
def take_dataset(
    request: Request, context: ContextDep, dataset_id: Annotated[str, Form()], split: Annotated[service.Split, Form()]
) -> Response:
    try:
        encoding = service.create_encoding_of_dataset(context, dataset_id, split)
    except InvalidError as error:
        return _list_page(request, context, error)
    return see(f"/encodings/{encoding.id}")


@router.get("/{encoding_id}")
def show_encoding(request: Request, context: ContextDep, encoding_id: str, query: LayersDep) -> Response:
    """The page of one encoding, whatever its state; it updates itself while a worker is busy with it."""
    return _page(request, context, encoding_id, query, read_values(request.query_params))


@router.post("/{encoding_id}/launch")
def launch(request: Request, context: ContextDep, encoding_id: str, query: LayersDep, form: FormDep) -> Response:
    """Hand it to the workers, or show the form again with the sentence at the field that is wrong."""
    values = read_values(form)
    try:
        service.launch_encoding(context, encoding_id, parse(values))
    except InvalidError as error:
        address = address_that_shows(f"/encodings/{encoding_id}", pairs_of(values))
        return see(address) if address else _page(request, context, encoding_id, query, values, error)
    return see(f"/encodings/{encoding_id}")


@router.post("/{encoding_id}/cancel")
def stop(context: ContextDep, encoding_id: str) -> Response:
    service.cancel_encoding(context, encoding_id)
    return see(f"/encodings/{encoding_id}")


@router.get("/{encoding_id}/delete")
def confirm_delete(request: Request, context: ContextDep, encoding_id: str) -> Response:
    encoding = service.get_encoding(context, encoding_id)
    loss = "This deletes its texts and the embeddings and measures of all its layers."
    tasks = tasks_lost(context, Embedding.encoding_id == encoding_id)
    return confirm_deletion(request, "data", encoding.name, loss, f"/encodings/{encoding_id}", lost_too=tasks)


@router.post("/{encoding_id}/delete")
def delete(context: ContextDep, encoding_id: str) -> Response:
    service.delete_encoding(context, encoding_id)
    return see("/encodings")


@router.get("/{encoding_id}/figures/{slug}.{kind}")
def show_figure(context: ContextDep, encoding_id: str, slug: str, kind: FileKind, query: LayersDep) -> Response:
    return figure_file(read_layers(context, service.get_encoding(context, encoding_id), query).figures, slug, kind)


def _page(
    request: Request,
    context: Context,
    encoding_id: str,
    query: LayersQuery,
    values: Values,
    problem: IsoscopeError | None = None,
) -> Response:
    encoding = service.get_encoding(context, encoding_id)
    shown: dict[str, Any] = {
        "encoding": encoding,
        "pooling_titles": POOLING_TITLES,
        "queries": queries_of(context, encoding),
    }
    if encoding.status in service.LAUNCHABLE:
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
    told = labelled(problem, LABELS) if problem else None
    return render(request, "encodings/encoding.html", shown, told, status=None if request.method == "POST" else 200)


def _preview(
    context: Context, encoding: Encoding, values: Values, *, ask_hub: bool
) -> service.EncodingPlan | IsoscopeError:
    """What the form would make as it stands, or why nothing."""
    try:
        return service.plan_encoding(context, encoding, parse(values), ask_hub=ask_hub)
    except IsoscopeError as error:
        return labelled(error, LABELS)


def _ways(request: Request, context: Context, encoding_id: str, values: Values) -> list[Way]:
    """Return the equivalent commands; none where the form means no configuration."""
    try:
        return ways_of_encoding(Server.from_request(request, context.settings), encoding_id, parse(values))
    except InvalidError:
        return []


def _list_page(request: Request, context: Context, problem: IsoscopeError | None = None, name: str = "") -> Response:
    shown = {
        "encodings": service.list_encodings(context),
        "datasets": [one for one in list_datasets(context) if one.train_sha256 is not None],
        "suffixes": [*suffixes(Role.TEXTS), ZIP_SUFFIX],
        "tables": suffixes(Role.ROWS),
        "max_bytes": context.settings.max_dataset_bytes,
        "name": name,
        "ways": ways_of_texts(Server.from_request(request, context.settings), list_models(context.settings)[0].name),
    }
    return render(request, "encodings/encodings.html", shown, problem)
