"""A sweep or a search as a YAML file: what fills in the form, and the file of an experiment that was launched."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Form, Request, Response, UploadFile
from pydantic import BaseModel, ValidationError

from app.context import Context
from app.db.study import Search
from app.dependencies import ContextDep
from app.errors import InvalidError, IsoscopeError
from app.formats.wording import MAX_SHOWN_CHARACTERS
from app.formats.yaml_document import FIELD, MAX_CHARACTERS, read_yaml
from app.routes.downloads import attachment
from app.routes.pages.answers import see
from app.routes.pages.study_form import address_of, study_page, texts_of_search
from app.routes.pages.sweep import form_page
from app.routes.pages.sweep_form import defaults, query_of, texts_of_settings
from app.services.datasets import list_trainable
from app.services.experiments import get_experiment
from app.services.names import file_name
from app.services.relaunch import request_of, yaml_of
from app.services.studies import StudyRequest, plan_study
from app.services.sweeps import SweepRequest, plan_sweep
from app.validation_messages import UNKNOWN, complaint_of

router = APIRouter(prefix="/experiments")

Kind = TypeVar("Kind", bound=BaseModel)


@router.post("/new/yaml")
def fill_in(
    request: Request,
    context: ContextDep,
    yaml: Annotated[str, Form()] = "",
    file: Annotated[UploadFile | str | None, Form()] = None,
) -> Response:
    """Fill in the form from a file or what was pasted, or say what is wrong, at its field where it has one."""
    try:
        yaml = _text_of(file) or yaml
        named = read_yaml(yaml)
    except InvalidError as error:
        return form_page(request, context, defaults(None, ""), error, yaml=yaml)
    document, moved = _placed(context, named)
    sound = _sound(document)
    values = defaults(None, "") | texts_of_settings(sound)
    if "search" in document:
        searched = texts_of_search(sound.get("search") or Search().model_dump(mode="json"))
        address, page = address_of(values, searched), partial(study_page, request, context, values, searched, yaml=yaml)
    else:
        address, page = f"/experiments/new?{query_of(values)}", partial(form_page, request, context, values, yaml=yaml)
    try:
        _check(context, document)
    except IsoscopeError as error:
        return page(_with(error, moved))
    return page(moved, status=200) if moved else see(address)


def _check(context: Context, document: Mapping[str, Any]) -> None:
    if "search" in document:
        plan_study(context, _asked(StudyRequest, document), ask_hub=False)
    else:
        plan_sweep(context, asked_by(document), ask_hub=False)


def _placed(context: Context, document: Mapping[str, Any]) -> tuple[Mapping[str, Any], InvalidError | None]:
    """The document on a data set that is here, and the sentence about it where it names another, or none."""
    there, asked = list_trainable(context), document.get("dataset_id")
    if not there or any(one.id == asked for one in there):
        return document, None
    named = "no data set" if asked is None else f"a data set that is not here ({asked!s:.{MAX_SHOWN_CHARACTERS}})"
    told = InvalidError(f"The file names {named}; {there[0].name} is chosen instead.", "dataset_id")
    return {**document, "dataset_id": there[0].id}, told


def _with(error: IsoscopeError, moved: InvalidError | None) -> IsoscopeError:
    """What is wrong, followed by what was done about the data set."""
    return type(error)(f"{error.message} {moved.message}", error.field) if moved else error


@router.get("/{experiment_id}/request.yaml")
def show_yaml(context: ContextDep, experiment_id: str) -> Response:
    """The request that launched an experiment, as a file."""
    experiment = get_experiment(context, experiment_id)
    text = yaml_of(request_of(experiment), experiment.dataset)
    headers = attachment(f"{file_name(experiment.name) or 'sweep'}.yaml")
    return Response(text, media_type="application/yaml", headers=headers)


def asked_by(document: Mapping[str, Any]) -> SweepRequest:
    """The request that a document is. Raises InvalidError at the first field that is wrong, or that has no row."""
    asked = _asked(SweepRequest, document)
    if "beside" in asked.grid:
        raise InvalidError(
            "The form has no row for a grid over sets of further regularizers. Launch this file by isoscope sweep, or "
            "take beside out of the grid.",
            "grid",
        )
    return asked


def _asked(kind: type[Kind], document: Mapping[str, Any]) -> Kind:
    known = (*kind.model_fields, *Search.model_fields)
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        # A name that there is not comes first: where it is misspelled, the right one is missing too.
        complaint = complaint_of(sorted(error.errors(), key=lambda one: one["type"] != UNKNOWN), known)
        place = [str(one) for one in complaint.place]
        raise InvalidError(complaint.sentence, place[-1] if place[0] == "search" else place[0]) from error


def _sound(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a document says, with the defaults of what it does not, but for those fields of it that are wrong."""
    kind = StudyRequest if "search" in document else SweepRequest
    try:
        return kind.model_validate(document).model_dump(mode="json")
    except ValidationError as error:
        wrong = {place["loc"][0] for place in error.errors()}
        return {name: value for name, value in document.items() if name not in wrong}


def _text_of(file: UploadFile | str | None) -> str:
    if file is None or isinstance(file, str) or not file.filename:
        return ""
    try:
        # In UTF-8 a character has at most four bytes.
        return file.file.read(4 * MAX_CHARACTERS + 1).decode()
    except UnicodeDecodeError as error:
        raise InvalidError(f"Expected a file of text in UTF-8, got other bytes in {file.filename}.", FIELD) from error
