"""The form that launches a sweep. It counts the runs while it is filled in."""

from functools import partial
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from app.context import Context
from app.db.models import DryRun
from app.dependencies import ContextDep
from app.help import REGULARIZERS, SWEEP
from app.problems import status_of
from app.regularizers import METHODS
from app.routes.pages.sweep_again import again
from app.routes.pages.sweep_choices import GRID_GROUPS, LABELS, options_of
from app.routes.pages.sweep_form import (
    Values,
    active_methods,
    defaults,
    fitting,
    preset_of,
    query_of,
    read_values,
    task_of,
    texts_of,
)
from app.routes.pages.sweep_request import parse
from app.routes.responses import see
from app.services.datasets import list_trainable
from app.services.dry_runs import delete_dry_run, find_dry_run, request_dry_run
from app.services.estimates import Estimate, estimate
from app.services.experiments import create_experiment
from app.services.models import list_models
from app.services.presets import PRESETS, unfit
from app.services.proposal import propose_for
from app.services.sweeps import plan_sweep
from app.services.waiting import obstacle
from app.services.workers import has_gpu, list_workers
from app.templating import templates
from app.training.equivalent_commands import ways_of_form
from isoscope.core.errors import IsoscopeError

router = APIRouter(prefix="/experiments")

STEPS_COUNT = "Steps are given, so epochs do not count."


class Preview(NamedTuple):
    """What the form would launch as it stands: how many runs and of what, or why none."""

    runs: int
    words: str
    notes: list[str]
    problem: IsoscopeError | None = None
    dry_run: DryRun | None = None
    estimate: Estimate | None = None


@router.get("/new")
def new_experiment(request: Request, context: ContextDep) -> Response:
    """The form, filled in from what was launched before, a preset and the query string where these say something."""
    asked = request.query_params
    before = again(context, asked.get("run"), asked.get("experiment"))
    return form_page(request, context, starting_values(request, context, before.values), before.problem, status=200)


def starting_values(request: Request, context: Context, before: Values | None = None) -> Values:
    """What the form starts with: what was launched before, a preset, and what the query string says."""
    given = (before or {}) | read_values(request.query_params)
    datasets = list_trainable(context)
    chosen = next((one for one in datasets if one.id == given.get("dataset_id")), next(iter(datasets), None))
    preset = preset_of(given)
    filled = texts_of(preset, gpu=_has_gpu(context)) if preset else {}
    values = defaults(chosen, list_models(context.settings)[0].name) | filled | given
    there = {column["name"] for column in chosen.columns} if chosen else set()
    if not {values["label_column"], *values["text_columns"]} <= there:
        values |= task_of(chosen)
    return fitting(values)


@router.post("")
async def launch_experiment(request: Request, context: ContextDep) -> Response:
    """Launch the sweep, or show the form again with the sentence at the field that is wrong."""
    values = read_values(await request.form())
    return await run_in_threadpool(_launch, request, context, values)


@router.post("/dry-run")
async def try_eight_rows(request: Request, context: ContextDep) -> Response:
    """Have the sweep that the form means tried before it is launched, and show the form again."""
    values = read_values(await request.form())
    return await run_in_threadpool(_try, request, context, values)


def _launch(request: Request, context: Context, values: Values) -> Response:
    try:
        experiment = create_experiment(context, parse(values))
    except IsoscopeError as error:
        shown = defaults(None, "") | values
        return form_page(request, context, shown, error)
    return see(f"/experiments/{experiment.id}")


def _try(request: Request, context: Context, values: Values) -> Response:
    try:
        request_dry_run(context, plan_sweep(context, parse(values)), again=True)
    except IsoscopeError as error:
        return form_page(request, context, defaults(None, "") | values, error)
    return see(f"/experiments/new?{query_of(values)}#dry-run")


@router.post("/dry-run/cancel")
async def take_back(request: Request, context: ContextDep) -> Response:
    """Take the dry run back that waits, or is at work, and show the form again."""
    sent = await request.form()
    await run_in_threadpool(delete_dry_run, context, str(sent.get("dry_run_id", "")))
    return see(f"/experiments/new?{query_of(read_values(sent))}#dry-run")


def form_page(
    request: Request,
    context: Context,
    values: Values,
    problem: IsoscopeError | None = None,
    *,
    status: int | None = None,
    yaml: str = "",
) -> Response:
    """The form with these texts; and the sentence at the field that is wrong, be it of a file in YAML."""
    datasets, workers = list_trainable(context), list_workers(context)
    dataset = next((one for one in datasets if one.id == values["dataset_id"]), None)
    preset = preset_of(values)
    preview = _preview(context, values) if dataset else None
    shown: dict[str, Any] = {
        "datasets": datasets,
        "dataset": dataset,
        "proposal": propose_for(dataset.hub_name, dataset.columns) if dataset else None,
        "models": list_models(context.settings),
        "values": values,
        "labels": LABELS,
        "options": options_of(values["task"]),
        "regularizers": METHODS,
        "active": active_methods(values),
        "grid_groups": GRID_GROUPS,
        "presets": PRESETS,
        "preset": preset,
        "unfit": unfit(preset, values["task"]) if preset else None,
        "has_gpu": has_gpu(workers),
        "obstacle": obstacle(context, workers, preview.dry_run.id if preview and preview.dry_run else None),
        "preview": preview,
        "problem": problem,
        "told": problem or (preview.problem if preview else None),
        "help": SWEEP,
        "methods_help": REGULARIZERS,
        "yaml": yaml,
        "ways": ways_of_form(request, context, dataset, partial(parse, values)),
    }
    status = status or (status_of(problem) if problem else 200)
    return templates.TemplateResponse(request, "experiment_new.html", shown, status_code=status)


def _has_gpu(context: Context) -> bool:
    return has_gpu(list_workers(context))


def _preview(context: Context, values: Values) -> Preview:
    try:
        plan = plan_sweep(context, parse(values), ask_hub=False)
    except IsoscopeError as error:
        return Preview(0, "", [], error)
    dry_run = find_dry_run(context, plan)
    told = estimate(plan, dry_run) if dry_run else None
    notes = [*plan.notes, *([STEPS_COUNT] if values["epochs"] and values["max_steps"] else [])]
    return Preview(len(plan.runs), plan.words, notes, dry_run=dry_run, estimate=told)
