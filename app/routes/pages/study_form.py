"""The form of a search for lambda and zeta: what the sweep form says of training, and what is searched."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import ValidationError

from app.complaints import complaint_of
from app.context import Context
from app.db.config import TrainingOptions
from app.db.penalty import Regularizer
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
from app.services.datasets import list_trainable
from app.services.relaunch import FOUND_OUT
from app.services.studies import StudyRequest, create_study
from app.templating import templates

router = APIRouter(prefix="/experiments/search")

PREFIX = "search_"
FIELDS = tuple(name for name in Search.model_fields if name not in FOUND_OUT)
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
    start = {name: text_of(field.get_default()) for name, field in Search.model_fields.items() if name in FIELDS}
    start["regularizer"] = swept[0] if swept else Regularizer.ISTAR.value
    start |= {name: text_of(value) for name, value in before.search.items() if name in FIELDS}
    return _page(request, context, values, start | _searched(request.query_params), before.problem, status=200)


@router.post("")
async def launch_study(request: Request, context: ContextDep) -> Response:
    """Launch the search, or show the form again with the sentence at the field that is wrong."""
    form = await request.form()
    return await run_in_threadpool(_launch, request, context, read_values(form), _searched(form))


def _launch(request: Request, context: Context, values: Values, searched: dict[str, str]) -> Response:
    try:
        experiment = create_study(context, _parse(values, searched))
    except IsoscopeError as error:
        at_field = f"{PREFIX}{error.field}" if error.field in FIELDS else error.field
        return _page(request, context, defaults(None, "") | values, searched, InvalidError(error.message, at_field))
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
        search = Search.model_validate(given | {"prune": bool(searched.get("prune"))})
    except ValidationError as error:
        complaint = complaint_of(error.errors())
        field = str(complaint.place[0]) if complaint.place else "lam_low"
        raise InvalidError(complaint.sentence, field) from error
    options: dict[str, Any] = sweep.model_dump(include=set(TrainingOptions.model_fields))
    return StudyRequest(**options, name=sweep.name, dataset_id=sweep.dataset_id, seeds=sweep.seeds, search=search)


def _searched(data: Mapping[str, Any]) -> dict[str, str]:
    """What a form or a query string says of the search, without the prefix of its fields."""
    given = {name: data.get(f"{PREFIX}{name}") for name in FIELDS}
    return {name: str(text).strip() for name, text in given.items() if text is not None}


def _page(
    request: Request,
    context: Context,
    values: Values,
    searched: Mapping[str, str],
    problem: InvalidError | None = None,
    *,
    status: int | None = None,
) -> Response:
    datasets = {one.id: one.name for one in list_trainable(context)}
    shown = {
        "values": values,
        "hidden": [(name, text) for name, text in pairs_of(values) if name != "seeds"],
        "back": f"/experiments/new?{query_of(values)}",
        "dataset": datasets.get(values["dataset_id"]),
        "search": dict.fromkeys(FIELDS, "") | dict(searched),
        "regularizers": METHODS,
        "objectives": OBJECTIVES,
        "help": SEARCH,
        "seeds_help": SWEEP["seeds"],
        "problem": problem,
        "fields": [*(f"{PREFIX}{name}" for name in FIELDS), "seeds"],
    }
    status = status or (status_of(problem) if problem else 200)
    return templates.TemplateResponse(request, "experiment_search.html", shown, status_code=status)
