"""The form of a search for lambda and zeta: what the sweep form says of training, and what is searched."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from app.context import Context
from app.core.validation_messages import messages_of
from app.db.config import TrainingOptions
from app.db.options.option import options_of
from app.db.study import Search
from app.training import option_form
from app.training.datasets import list_trainable
from app.training.experiments import StudyRequest, create_study, plan_study
from app.training.failure_advice import again
from app.training.pages.sweep import address_of as sweep_address
from app.training.pages.sweep import starting_values
from app.training.relaunch import ways_of_form
from app.training.sweep_form import LABELS, Values, defaults, pairs_of, parse, read_values
from app.training.sweeps import SweepRequest
from app.web.dependencies import ContextDep, FormDep
from app.web.responses import render, see
from isoscope.core.errors import FieldError, InvalidError, IsoscopeError, invalid
from isotropy.catalog import REGULARIZERS, Regularizer

router = APIRouter(prefix="/experiments/search")

PREFIX = "search_"
OPTIONS = options_of(Search)
FIELDS = tuple(OPTIONS)
SEARCH_LABELS = LABELS | {name: option.label for name, option in OPTIONS.items()}


@router.get("")
def new_study(request: Request, context: ContextDep) -> Response:
    """The form; how the runs are trained comes from the sweep form by the query string, or from an earlier search."""
    asked = request.query_params
    if option_form.CHECKED in asked:
        values = defaults(None, "") | read_values(asked)
        return study_page(request, context, values, _searched(asked), checked=True, status=200)
    before = again(context, None, asked.get("experiment"))
    values = starting_values(request, context, before.values)
    swept = [one for one in values["regularizers"] if one in REGULARIZERS]
    start = texts_of_search(Search().model_dump(mode="json"))
    start["regularizer"] = swept[0] if swept else Regularizer.ISTAR.value
    start |= texts_of_search(before.search) | _searched(asked)
    return study_page(request, context, values, start, before.problem, status=200)


@router.post("")
def launch_study(request: Request, context: ContextDep, form: FormDep) -> Response:
    """Launch the search, or show the form again with a sentence at every field that is wrong."""
    values, searched = read_values(form), _searched(form)
    try:
        experiment = create_study(context, _parse(values, searched))
    except IsoscopeError as error:
        address = None
        if isinstance(error, InvalidError):
            address = option_form.address_that_shows(router.prefix, [*pairs_of(values), *_pairs(searched)])
        return see(address) if address else study_page(request, context, defaults(None, "") | values, searched, error)
    return see(f"/experiments/{experiment.id}")


def _parse(values: Values, searched: Mapping[str, str]) -> StudyRequest:
    sweep, wrong = _of_the_sweep(values)
    given = {name: option_form.meaning(Search.model_fields[name], text) for name, text in searched.items()}
    try:
        search = Search.model_validate(given | {"prune": searched.get("prune") == "true"})
    except ValidationError as error:
        for sentence, place in messages_of(error.errors(), form=True):
            wrong.append(FieldError(str(place[0]) if place else "lam_low", sentence))
    if sweep is None or wrong:
        raise invalid(wrong)
    options: dict[str, Any] = sweep.model_dump(include=set(TrainingOptions.model_fields))
    return StudyRequest(**options, name=sweep.name, dataset_id=sweep.dataset_id, seeds=sweep.seeds, search=search)


def _of_the_sweep(values: Values) -> tuple[SweepRequest | None, list[FieldError]]:
    try:
        sweep = parse(values)
    except InvalidError as error:
        return None, list(error.errors)
    if not sweep.grid:
        return sweep, []
    sentence = (
        f"A search has no grid, and the sweep form ranges over {', '.join(f'`{name}`' for name in sweep.grid)}. Take "
        "it out there, or launch the sweep."
    )
    return sweep, [FieldError("grid", sentence)]


def texts_of_search(search: Mapping[str, Any]) -> dict[str, str]:
    """What is searched, as JSON holds it, as the texts of the form."""
    return {name: option_form.text_of(value) for name, value in search.items() if name in FIELDS}


def address_of(values: Values, searched: Mapping[str, str]) -> str:
    """Where the form is that says this."""
    return f"{router.prefix}?{urlencode([*pairs_of(values), *_pairs(searched)])}"


def _pairs(searched: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(PREFIX + name, text) for name, text in searched.items()]


def _searched(data: Mapping[str, Any]) -> dict[str, str]:
    """What a form or a query string says of the search, without the prefix of its fields."""
    given = {name: data.get(f"{PREFIX}{name}") for name in FIELDS}
    return {name: str(text).strip() for name, text in given.items() if text is not None}


def _controls(values: Values, searched: Mapping[str, str]) -> list[option_form.Control]:
    """What is searched; and the seeds, which the sweep form has too."""
    controls = [*option_form.controls_of(Search, searched, PREFIX).values()]
    return [*controls, option_form.controls_of(StudyRequest, values)["seeds"]]


def study_page(
    request: Request,
    context: Context,
    values: Values,
    searched: Mapping[str, str],
    problem: IsoscopeError | None = None,
    *,
    checked: bool = False,
    status: int | None = None,
    yaml: str = "",
) -> Response:
    """The form with these texts, and a sentence at every field that is wrong, be it of a file in YAML."""
    dataset = next((one for one in list_trainable(context) if one.id == values["dataset_id"]), None)
    if checked:
        problem = _problem(context, values, searched)
    if problem:
        problem = _at_its_fields(option_form.labelled(problem, SEARCH_LABELS))
    controls = _controls(values, searched)
    shown = {
        "values": values,
        "hidden": [(name, text) for name, text in pairs_of(values) if name != "seeds"],
        "back": sweep_address(values),
        "dataset": dataset,
        "groups": option_form.in_folds(controls),
        "labels": {control.name: control.option.label for control in controls},
        "yaml": yaml,
        "ways": ways_of_form(request, context, dataset, partial(_parse, values, searched)),
    }
    return render(request, "training/experiment_search.html", shown, problem, status=status)


def _problem(context: Context, values: Values, searched: Mapping[str, str]) -> IsoscopeError | None:
    try:
        plan_study(context, _parse(values, searched))
    except IsoscopeError as error:
        return error
    return None


def _at_its_fields(error: IsoscopeError) -> IsoscopeError:
    """At the fields of the form, of which those of the search have a prefix."""
    first, *more = (
        FieldError(f"{PREFIX}{field}" if field in FIELDS else field, detail) for field, detail in error.errors
    )
    return replace(error, message=first.detail, field=first.field, further=tuple(more))
