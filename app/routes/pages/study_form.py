"""The form of a search for lambda and zeta: what the sweep form says of training, and what is searched."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import ValidationError

from app.context import Context
from app.db.config import TrainingOptions
from app.db.regularizer_options import Regularizer
from app.db.study import Objective, Search
from app.dependencies import ContextDep
from app.errors import InvalidError, IsoscopeError
from app.help import SEARCH, SWEEP
from app.problems import status_of
from app.regularizers import METHODS
from app.routes.pages.answers import see
from app.routes.pages.sweep import starting_values
from app.routes.pages.sweep_again import again
from app.routes.pages.sweep_form import Values, defaults, pairs_of, query_of, read_values, text_of
from app.routes.pages.sweep_request import parse
from app.routes.pages.ways import ways_of_form
from app.services.datasets import list_trainable
from app.services.relaunch import FOUND_OUT
from app.services.studies import StudyRequest, create_study
from app.templating import templates
from app.validation_messages import complaint_of

router = APIRouter(prefix="/experiments/search")

PREFIX = "search_"
FIELDS = tuple(name for name in Search.model_fields if name not in FOUND_OUT)
LABELS = {
    "regularizer": "Regularizer",
    "lam_low": "Least λ",
    "lam_high": "Greatest λ",
    "least_size": "Least size of λ",
    "zeta_low": "Least ζ",
    "zeta_high": "Greatest ζ",
    "trials": "Trials",
    "at_once": "At once",
    "objective": "Sought",
    "seed": "Seed of the search",
}
OBJECTIVES = {
    Objective.PERFORMANCE: "performance",
    Objective.BOTH: "performance and IsoScore★: the front of both",
}


@router.get("")
def new_study(request: Request, context: ContextDep) -> Response:
    """The form; how the runs are trained comes from the sweep form by the query string, or from an earlier search."""
    before = again(context, None, request.query_params.get("experiment"))
    values = starting_values(request, context, before.values)
    swept = [one for one in values["regularizers"] if one in METHODS]
    start = texts_of_search(Search().model_dump(mode="json"))
    start["regularizer"] = swept[0] if swept else Regularizer.ISTAR.value
    start |= texts_of_search(before.search) | _searched(request.query_params)
    return study_page(request, context, values, start, before.problem, status=200)


@router.post("")
async def launch_study(request: Request, context: ContextDep) -> Response:
    """Launch the search, or show the form again with the sentence at the field that is wrong."""
    form = await request.form()
    return await run_in_threadpool(_launch, request, context, read_values(form), _searched(form))


def _launch(request: Request, context: Context, values: Values, searched: dict[str, str]) -> Response:
    try:
        experiment = create_study(context, _parse(values, searched))
    except IsoscopeError as error:
        return study_page(request, context, defaults(None, "") | values, searched, error)
    return see(f"/experiments/{experiment.id}")


def _parse(values: Values, searched: Mapping[str, str]) -> StudyRequest:
    sweep = parse(values)
    if sweep.grid:
        raise InvalidError(
            f"A search has no grid, and the sweep form ranges over {', '.join(sweep.grid)}. Take it out there, or "
            "launch the sweep.",
            "grid",
        )
    given = {name: text.replace("−", "-") for name, text in searched.items() if text or name != "least_size"}
    try:
        search = Search.model_validate(given | {"prune": searched.get("prune") == "true"})
    except ValidationError as error:
        complaint = complaint_of(error.errors())
        field = str(complaint.place[0]) if complaint.place else "lam_low"
        raise InvalidError(_in_words(complaint.sentence), field) from error
    options: dict[str, Any] = sweep.model_dump(include=set(TrainingOptions.model_fields))
    return StudyRequest(**options, name=sweep.name, dataset_id=sweep.dataset_id, seeds=sweep.seeds, search=search)


def _in_words(sentence: str) -> str:
    """With the labels of the form in place of the names of its fields."""
    return re.sub(
        rf"\b({'|'.join(LABELS)})\b", lambda name: f"{LABELS[name[0]][0].lower()}{LABELS[name[0]][1:]}", sentence
    )


def texts_of_search(search: Mapping[str, Any]) -> dict[str, str]:
    """What is searched, as JSON holds it, as the texts of the form."""
    return {name: text_of(value) for name, value in search.items() if name in FIELDS}


def address_of(values: Values, searched: Mapping[str, str]) -> str:
    """Where the form is that says this."""
    return f"{router.prefix}?{query_of(values)}&{urlencode({PREFIX + name: text for name, text in searched.items()})}"


def _searched(data: Mapping[str, Any]) -> dict[str, str]:
    """What a form or a query string says of the search, without the prefix of its fields."""
    given = {name: data.get(f"{PREFIX}{name}") for name in FIELDS}
    return {name: str(text).strip() for name, text in given.items() if text is not None}


def study_page(
    request: Request,
    context: Context,
    values: Values,
    searched: Mapping[str, str],
    problem: IsoscopeError | None = None,
    *,
    status: int | None = None,
    yaml: str = "",
) -> Response:
    """The form with these texts, and the sentence at the field that is wrong, be it of a file in YAML."""
    dataset = next((one for one in list_trainable(context) if one.id == values["dataset_id"]), None)
    if problem is not None and problem.field in FIELDS:
        problem = InvalidError(problem.message, f"{PREFIX}{problem.field}")
    searched = dict.fromkeys(FIELDS, "") | dict(searched)
    shown = {
        "values": values,
        "hidden": [(name, text) for name, text in pairs_of(values) if name != "seeds"],
        "back": f"/experiments/new?{query_of(values)}",
        "dataset": dataset,
        "search": searched,
        "regularizers": METHODS,
        "labels": LABELS,
        "objectives": OBJECTIVES,
        "help": SEARCH,
        "seeds_help": SWEEP["seeds"],
        "problem": problem,
        "fields": [*(f"{PREFIX}{name}" for name in FIELDS), "seeds", "yaml"],
        "yaml": yaml,
        "ways": ways_of_form(request, context, dataset, partial(_parse, values, searched)),
    }
    status = status or (status_of(problem) if problem else 200)
    return templates.TemplateResponse(request, "experiment_search.html", shown, status_code=status)
