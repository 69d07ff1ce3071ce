"""A sweep or a search as a YAML file: what fills in the form, and the file of an experiment that was launched."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, TypeVar
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Request, Response, UploadFile
from pydantic import ValidationError

from app.context import Context
from app.core.names import file_name
from app.core.validation_messages import messages_of
from app.db.config import TrainingOptions
from app.db.study import Search
from app.training.datasets import list_trainable
from app.training.experiments import StudyRequest, get_experiment, plan_study
from app.training.option_form import MAX_ADDRESS
from app.training.pages.study import address_of, study_page, texts_of_search
from app.training.pages.sweep import address_of as address_of_sweep
from app.training.pages.sweep import form_page
from app.training.relaunch import request_of, yaml_of
from app.training.sweep_form import defaults, texts_of_settings, unsaid
from app.training.sweeps import SweepRequest, plan_sweep
from app.web.dependencies import ContextDep
from app.web.responses import attachment, see
from app.web.uploads import chosen
from isoscope.core.errors import FieldError, InvalidError, IsoscopeError, invalid
from isoscope.core.formatting import MAX_SHOWN_CHARACTERS
from isoscope.files.yaml_document import FIELD, MAX_CHARACTERS, read_yaml

router = APIRouter(prefix="/experiments")

Kind = TypeVar("Kind", bound=TrainingOptions)


@router.post("/new/yaml")
def fill_in(
    request: Request,
    context: ContextDep,
    yaml: Annotated[str, Form()] = "",
    file: Annotated[UploadFile | str | None, Form()] = None,
) -> Response:
    """Fill in the form from a file or what was pasted, or say what is wrong, at its field where it has one."""
    try:
        text = _text_of(file) or yaml
    except InvalidError as error:
        return form_page(request, context, defaults(None, ""), error, yaml=yaml)
    filled = _filled_in(request, context, text)
    address = f"/experiments/new/yaml?{urlencode({'yaml': text})}"
    return filled if filled.status_code == HTTPStatus.SEE_OTHER or len(address) > MAX_ADDRESS else see(address)


@router.get("/new/yaml")
def show_filled_in(request: Request, context: ContextDep, yaml: str = "") -> Response:
    """The form as a document fills it in, at an address that can be loaded again."""
    return _filled_in(request, context, yaml)


def _filled_in(request: Request, context: Context, yaml: str) -> Response:
    try:
        named = read_yaml(yaml)
    except InvalidError as error:
        return form_page(request, context, defaults(None, ""), error, yaml=yaml)
    document, told = _placed(context, named)
    sound = _sound(document)
    values = defaults(None, "") | texts_of_settings(sound)
    page = partial(form_page, request, context, values, yaml=yaml)
    address = address_of_sweep(values)
    if "search" in document:
        searched = texts_of_search(sound.get("search") or Search().model_dump(mode="json"))
        page = partial(study_page, request, context, values, searched, yaml=yaml)
        address = address_of(values, searched)
    try:
        _check(context, document)
    except IsoscopeError as error:
        return page(_with(error, told))
    return page(_with(None, told), status=200) if told else see(address)


def _check(context: Context, document: Mapping[str, Any]) -> None:
    """Raise InvalidError if a document cannot be launched."""
    asked = search_asked_by(document) if "search" in document else asked_by(document)
    if isinstance(asked, StudyRequest):
        plan_study(context, asked, ask_hub=False)
    else:
        plan_sweep(context, asked, ask_hub=False)


def _placed(context: Context, document: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[FieldError]]:
    """The document on a data set that is here, and the sentence about it where it names another."""
    there, asked = list_trainable(context), document.get("dataset_id")
    if not there or any(one.id == asked for one in there):
        return document, []
    named = "no data set" if asked is None else f"a data set that is not here ({asked!s:.{MAX_SHOWN_CHARACTERS}})"
    told = FieldError("dataset_id", f"The file names {named}; {there[0].name} is chosen instead.")
    return {**document, "dataset_id": there[0].id}, [told]


def _with(error: IsoscopeError | None, told: Sequence[FieldError]) -> IsoscopeError:
    """What is wrong, followed by what was done about it already."""
    return replace(error, further=(*error.further, *told)) if error else invalid(told)


@router.get("/{experiment_id}/request.yaml")
def show_yaml(context: ContextDep, experiment_id: str) -> Response:
    experiment = get_experiment(context, experiment_id)
    text = yaml_of(request_of(experiment), experiment.dataset)
    headers = attachment(f"{file_name(experiment.name) or 'sweep'}.yaml")
    return Response(text, media_type="application/yaml", headers=headers)


def asked_by(document: Mapping[str, Any]) -> SweepRequest:
    """The request that a document is. Raises InvalidError with every field that is wrong, or that has no row."""
    asked = _asked(SweepRequest, document)
    if "fixed_regularizers" in asked.grid:
        raise unsaid()
    return asked


def search_asked_by(document: Mapping[str, Any]) -> StudyRequest:
    """The request of a search that a document is. Raises InvalidError at the first field that is wrong."""
    return _asked(StudyRequest, document)


def _asked(kind: type[Kind], document: Mapping[str, Any]) -> Kind:
    known = (*kind.model_fields, *Search.model_fields)
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        told = [(sentence, [str(part) for part in place]) for sentence, place in messages_of(error.errors(), known)]
        raise invalid(
            FieldError((place[-1] if place[0] == "search" else place[0]) if place else None, sentence)
            for sentence, place in told
        ) from error


def _sound(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a document says, with the defaults of what it does not, but for those fields of it that are wrong."""
    kind = StudyRequest if "search" in document else SweepRequest
    try:
        return kind.model_validate(document).model_dump(mode="json")
    except ValidationError as error:
        wrong = {place["loc"][0] for place in error.errors() if place["loc"]}
        return {name: value for name, value in document.items() if name not in wrong}


def _text_of(file: UploadFile | str | None) -> str:
    if (given := chosen(file)) is None:
        return ""
    try:
        # In UTF-8 a character has at most four bytes.
        return given.stream.read(4 * MAX_CHARACTERS + 1).decode()
    except UnicodeDecodeError as error:
        raise InvalidError(f"Expected a file of text in UTF-8, got other bytes in {given.filename}.", FIELD) from error
