"""Encodings: list, upload texts, fill in the form, follow, read the report by layer, delete."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Request, Response, UploadFile
from starlette.datastructures import ImmutableMultiDict

from app.context import Context
from app.core.names import require_name
from app.core.validation_messages import validate_form
from app.db.encoding import EncodingConfig
from app.db.models import UNFINISHED_ENCODING, Embedding, Encoding, EncodingStatus
from app.db.options.option import collect_options
from app.embeddings import encodings
from app.embeddings.encoding_layers import LayersDep, LayersQuery, build_layers_report
from app.embeddings.figures.layers import POOLING_TITLES
from app.embeddings.service import describe_lost_tasks
from app.training.datasets import list_datasets
from app.training.models import list_models
from app.training.option_form import (
    CHECKED,
    build_controls,
    field_pairs,
    form_address,
    label_fields,
    read_fields,
    to_json_value,
    to_text,
)
from app.training.queue_status import list_workers
from app.training.relaunch import Server, encoding_snippets, text_snippets
from app.web.dependencies import ContextDep, FormDep
from app.web.responses import FileKind, figure_file, redirect_to, render
from app.web.templating import confirm_deletion
from app.web.uploads import chosen_file, in_parser_slot
from isoscope.core.beir_layout import ZIP_SUFFIX
from isoscope.core.errors import InvalidError, IsoscopeError
from isoscope.core.formatting import count
from isoscope.files.ground_truth import id_column
from isoscope.files.selection import LABEL_NAMES
from isoscope.files.upload_formats import Role, suffixes

FormValues = dict[str, Any]
"""A text by field; a list of texts for ``LIST_FIELDS``."""
FIELDS = EncodingConfig.model_fields
LIST_FIELDS = ("text_columns", "poolings")
# Names of scores beside two columns of texts. If there is only one other column, its name need not be one.
PROPOSED_SCORE_NAMES = ("score", "similarity", "rating", "match", "is_match", "is_duplicate")
LABELS = {name: option.label for name, option in collect_options(EncodingConfig).items()}


def default_values(encoding: Encoding, model: str) -> FormValues:
    """Return the initial values of the form: the last configuration, else defaults and the likeliest columns."""
    settings = {name: field.get_default() for name, field in FIELDS.items() if not field.is_required()}
    if encoding.config is not None:
        settings = encoding.config.model_dump(mode="json")
    values: FormValues = {
        name: list(map(str, value)) if name in LIST_FIELDS else to_text(value) for name, value in settings.items()
    }
    if encoding.config is not None:
        return values
    id_name = id_column(column.name for column in encoding.columns)
    columns = [column for column in encoding.columns if column.name != id_name] or encoding.columns
    texts = [column.name for column in columns if column.kind == "text"] or [column.name for column in columns]
    labels = [column.name for column in columns if column.kind == "label" and column.name != texts[0]]
    values |= {"model": model, "text_columns": texts[:1], "label_column": next(iter(labels), "")}
    numbers = [column for column in columns if column.not_number is None]
    if len(columns) > 3:
        numbers = [column for column in numbers if column.name.lower() in ("label", *PROPOSED_SCORE_NAMES)]
    # Three or more whole numbers called "label" or the like are classes.
    scores = [
        column.name
        for column in numbers
        if column.kind == "number" or column.n_distinct == 2 or column.name.lower() not in LABEL_NAMES
    ]
    if len(texts) == 2 and len(scores) == 1:
        values |= {"text_columns": texts, "label_column": "", "score_column": scores[0]}
    # A corpus is encoded whole, because the queries need every document.
    return values | ({"max_rows": ""} if encoding.qrels else {})


def read_values(form: ImmutableMultiDict[str, Any]) -> FormValues:
    """Read the fields of the form; empty if ``form`` holds no submitted form."""
    if "model" not in form:
        return {}
    return {name: [] for name in LIST_FIELDS} | read_fields(form, set(FIELDS) - set(LIST_FIELDS), LIST_FIELDS)


def parse_config(values: FormValues) -> EncodingConfig:
    """Parse the configuration in a form. Raise InvalidError with every invalid field."""
    settings = {
        name: value if name in LIST_FIELDS else to_json_value(FIELDS[name], value) for name, value in values.items()
    }
    return validate_form(EncodingConfig, settings)


router = APIRouter(prefix="/encodings")


@router.get("")
def list_all(request: Request, context: ContextDep) -> Response:
    return _render_list(request, context)


@router.post("")
@in_parser_slot
def upload_texts(
    request: Request,
    context: ContextDep,
    file: Annotated[list[UploadFile | str] | None, File()] = None,
    name: Annotated[str, Form()] = "",
) -> Response:
    files = [*filter(None, map(chosen_file, file or []))]
    try:
        if not files:
            raise InvalidError("Expected a file of texts: choose one.", "file")
        encoding = encodings.create_encoding(context, files, require_name(name, files[0].filename))
    except IsoscopeError as error:
        error.field = error.field or "file"
        return _render_list(request, context, error, name)
    return redirect_to(f"/encodings/{encoding.id}")


@router.post("/of-dataset")
@in_parser_slot
def create_from_dataset(
    request: Request, context: ContextDep, dataset_id: Annotated[str, Form()], split: Annotated[encodings.Split, Form()]
) -> Response:
    try:
        encoding = encodings.create_encoding_of_dataset(context, dataset_id, split)
    except InvalidError as error:
        return _render_list(request, context, error)
    return redirect_to(f"/encodings/{encoding.id}")


@router.get("/{encoding_id}")
def show_encoding(request: Request, context: ContextDep, encoding_id: str, query: LayersDep) -> Response:
    return _render_page(request, context, encoding_id, query, read_values(request.query_params))


@router.post("/{encoding_id}/launch")
def launch(request: Request, context: ContextDep, encoding_id: str, query: LayersDep, form: FormDep) -> Response:
    values = read_values(form)
    try:
        encodings.launch_encoding(context, encoding_id, parse_config(values))
    except InvalidError as error:
        address = form_address(f"/encodings/{encoding_id}", field_pairs(values))
        return redirect_to(address) if address else _render_page(request, context, encoding_id, query, values, error)
    return redirect_to(f"/encodings/{encoding_id}")


@router.post("/{encoding_id}/cancel")
def cancel(context: ContextDep, encoding_id: str) -> Response:
    encodings.cancel_encoding(context, encoding_id)
    return redirect_to(f"/encodings/{encoding_id}")


@router.get("/{encoding_id}/delete")
def confirm_delete(request: Request, context: ContextDep, encoding_id: str) -> Response:
    encoding = encodings.get_encoding(context, encoding_id)
    loss = "This deletes its texts and the embeddings and measures of all its layers."
    tasks = describe_lost_tasks(context, Embedding.encoding_id == encoding_id)
    return confirm_deletion(request, "data", encoding.name, loss, f"/encodings/{encoding_id}", more_losses=tasks)


@router.post("/{encoding_id}/delete")
def delete(context: ContextDep, encoding_id: str) -> Response:
    encodings.delete_encoding(context, encoding_id)
    return redirect_to("/encodings")


@router.get("/{encoding_id}/figures/{slug}.{kind}")
def show_figure(context: ContextDep, encoding_id: str, slug: str, kind: FileKind, query: LayersDep) -> Response:
    report = build_layers_report(context, encodings.get_encoding(context, encoding_id), query)
    return figure_file(report.figures, slug, kind)


def _render_page(
    request: Request,
    context: Context,
    encoding_id: str,
    query: LayersQuery,
    values: FormValues,
    problem: IsoscopeError | None = None,
) -> Response:
    encoding = encodings.get_encoding(context, encoding_id)
    page: dict[str, Any] = {
        "encoding": encoding,
        "pooling_titles": POOLING_TITLES,
        "queries": encodings.find_queries(context, encoding),
    }
    if encoding.status in encodings.LAUNCHABLE:
        models = list_models(context.settings)
        values = default_values(encoding, models[0].name) | values
        controls = build_controls(EncodingConfig, values)
        controls["max_rows"] = replace(controls["max_rows"], note=f" The file has {count(encoding.n_texts)}.")
        page |= {"models": models, "values": values, "controls": controls, "labels": LABELS, "snippets": []}
        is_checked = CHECKED in request.query_params
        try:
            config = parse_config(values)
            page["snippets"] = encoding_snippets(Server.from_request(request, context.settings), encoding.id, config)
            page["plan"] = encodings.plan_encoding(context, encoding, config, ask_hub=is_checked)
        except IsoscopeError as error:
            page["plan"] = label_fields(error, LABELS)
            problem = page["plan"] if is_checked else problem
    elif encoding.status in UNFINISHED_ENCODING:
        page["workers"] = list_workers(context)
    elif encoding.status is EncodingStatus.FINISHED:
        page["layers"] = build_layers_report(context, encoding, query)
    problem = label_fields(problem, LABELS) if problem else None
    return render(request, "embeddings/encoding.html", page, problem, status=None if request.method == "POST" else 200)


def _render_list(request: Request, context: Context, problem: IsoscopeError | None = None, name: str = "") -> Response:
    page = {
        "encodings": encodings.list_encodings(context),
        "datasets": [dataset for dataset in list_datasets(context) if dataset.train_sha256 is not None],
        "suffixes": [*suffixes(Role.TEXTS), ZIP_SUFFIX],
        "tables": suffixes(Role.ROWS),
        "max_bytes": context.settings.max_dataset_bytes,
        "name": name,
        "snippets": text_snippets(
            Server.from_request(request, context.settings), list_models(context.settings)[0].name
        ),
    }
    return render(request, "embeddings/encodings.html", page, problem)
