"""The form that launches a sweep. It counts the runs while it is filled in."""

from typing import NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from app.context import Context
from app.dependencies import ContextDep
from app.errors import IsoscopeError
from app.problems import status_of
from app.routes.pages.answers import see
from app.routes.pages.sweep_form import Values, columns_of, defaults, parse, read_values
from app.services.datasets import list_datasets
from app.services.experiments import create_experiment
from app.services.models import list_models
from app.services.sweeps import SweepPlan, plan_sweep
from app.templating import templates

router = APIRouter(prefix="/experiments")


class Preview(NamedTuple):
    """What the form would launch as it stands: how many runs of which λ and seeds, or why none."""

    runs: int
    lambdas: list[float]
    seeds: list[int]
    notes: list[str]
    problem: str | None = None


@router.get("/new")
def new_experiment(request: Request, context: ContextDep) -> Response:
    """The form, filled in from the query string where it says something."""
    given = read_values(request.query_params)
    datasets = list_datasets(context)
    chosen = next((one for one in datasets if one.id == given.get("dataset_id")), next(iter(datasets), None))
    values = defaults(chosen, list_models(context.settings)[0].name) | given
    there = {column["name"] for column in chosen.columns} if chosen else set()
    if not {values["label_column"], *values["text_columns"]} <= there:
        values |= columns_of(chosen)
    return _form_page(request, context, values)


@router.post("")
async def launch_experiment(request: Request, context: ContextDep) -> Response:
    """Launch the sweep, or show the form again with the sentence at the field that is wrong."""
    values = read_values(await request.form())
    return await run_in_threadpool(_launch, request, context, values)


def _launch(request: Request, context: Context, values: Values) -> Response:
    try:
        experiment = create_experiment(context, parse(values))
    except IsoscopeError as error:
        shown = defaults(None, "") | values
        return _form_page(request, context, shown, error)
    return see(f"/experiments/{experiment.id}")


def _form_page(request: Request, context: Context, values: Values, problem: IsoscopeError | None = None) -> Response:
    datasets = list_datasets(context)
    dataset = next((one for one in datasets if one.id == values["dataset_id"]), None)
    shown = {
        "datasets": datasets,
        "dataset": dataset,
        "models": list_models(context.settings),
        "values": values,
        "preview": _preview(context, values) if dataset else None,
        "problem": problem,
    }
    status = status_of(problem) if problem else 200
    return templates.TemplateResponse(request, "experiment_new.html", shown, status_code=status)


def _preview(context: Context, values: Values) -> Preview:
    try:
        plan: SweepPlan = plan_sweep(context, parse(values), ask_hub=False)
    except IsoscopeError as error:
        return Preview(0, [], [], [], error.message)
    lambdas = sorted({run.lam for run in plan.runs})
    return Preview(len(plan.runs), lambdas, sorted({run.seed for run in plan.runs}), plan.notes)
