"""The form that launches a sweep. It counts the runs while it is filled in."""

from functools import partial
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from app.context import Context
from app.db.options.regularization import reading
from app.training.columns import propose_for
from app.training.datasets import list_trainable
from app.training.experiments import create_experiment
from app.training.failure_advice import again
from app.training.models import list_models
from app.training.option_form import CHECKED, Control, address_that_shows, in_folds, labelled
from app.training.presets import PRESETS, unfit
from app.training.queue_status import has_gpu, list_workers
from app.training.relaunch import ways_of_form
from app.training.sweep_form import (
    EXTRA,
    FRESH,
    GRID_GROUPS,
    LABELS,
    Values,
    active_methods,
    defaults,
    fitting,
    pairs_of,
    parse,
    preset_of,
    read_values,
    sweep_controls,
    task_of,
    texts_of,
)
from app.training.sweep_preview import preview_sweep
from app.training.sweeps import plan_sweep
from app.web.dependencies import ContextDep, FormDep
from app.web.responses import render, see
from isoscope.core.errors import InvalidError, IsoscopeError
from isotropy.catalog import REGULARIZERS

router = APIRouter(prefix="/experiments")

FORM = "/experiments/new"
STEPS_COUNT = "Max steps is set, so epochs are ignored."


@router.get("/new")
def new_experiment(request: Request, context: ContextDep) -> Response:
    """The form, filled in from what was launched before, a preset and the query string where these say something."""
    asked = request.query_params
    if CHECKED in asked:
        return form_page(request, context, defaults(None, "") | read_values(asked), checked=True, status=200)
    before = again(context, asked.get("run"), asked.get("experiment"))
    return form_page(request, context, starting_values(request, context, before.values), before.problem, status=200)


def starting_values(request: Request, context: Context, before: Values | None = None) -> Values:
    """What the form starts with: what was launched before, a preset, and what the query string says."""
    given = (before or {}) | read_values(request.query_params)
    datasets = list_trainable(context)
    chosen = next((one for one in datasets if one.id == given.get("dataset_id")), next(iter(datasets), None))
    preset = preset_of(given)
    filled = texts_of(preset, gpu=has_gpu(list_workers(context))) if preset else {}
    fresh = defaults(chosen, list_models(context.settings)[0].name) | FRESH
    values = fresh | filled | given
    there = {column.name for column in chosen.columns} if chosen else set()
    if not {values["label_column"], *values["text_columns"]} <= there:
        values |= task_of(chosen)
    return fitting(values)


@router.post("")
def launch_experiment(request: Request, context: ContextDep, form: FormDep) -> Response:
    """Launch the sweep, or show the form again with a sentence at every field that is wrong."""
    values = read_values(form)
    try:
        experiment = create_experiment(context, parse(values))
    except IsoscopeError as error:
        return _refused(request, context, values, error)
    return see(f"/experiments/{experiment.id}")


def _refused(request: Request, context: Context, values: Values, error: IsoscopeError) -> Response:
    """At an address that finds the same wrong again and sends nothing; else, as for a full disk, in place."""
    address = address_that_shows(FORM, pairs_of(values)) if isinstance(error, InvalidError) else None
    return see(address) if address else form_page(request, context, defaults(None, "") | values, error)


def address_of(values: Values) -> str:
    """Where the form is that is filled in with these texts."""
    return f"{FORM}?{urlencode(pairs_of(values))}"


def form_page(
    request: Request,
    context: Context,
    values: Values,
    problem: IsoscopeError | None = None,
    *,
    checked: bool = False,
    status: int | None = None,
    yaml: str = "",
) -> Response:
    """The form with these texts, and a sentence at every field that is wrong, be it of a file in YAML.

    A form that was sent and is wrong is ``checked``: it is told as loudly as ``problem``.
    """
    datasets, workers = list_trainable(context), list_workers(context)
    dataset = next((one for one in datasets if one.id == values["dataset_id"]), None)
    preset = preset_of(values)
    preview, unready = None, None
    if dataset or checked:
        try:
            preview = preview_sweep(context, plan_sweep(context, parse(values), ask_hub=checked))
        except IsoscopeError as error:
            unready = labelled(error, LABELS)
    problem = unready if checked else problem
    problem = labelled(problem, LABELS) if problem else None
    controls, shown_controls = sweep_controls(values, gpu=has_gpu(workers))
    shown: dict[str, Any] = {
        "datasets": datasets,
        "dataset": dataset,
        "proposal": propose_for(dataset.hub_name, dataset.columns) if dataset else None,
        "models": list_models(context.settings),
        "values": values,
        "labels": LABELS,
        "extra_fields": list(EXTRA),
        "grid_fields": ["grid", *(f"grid-{number}" for number, _ in enumerate(values["grid"], start=1))],
        "controls": controls,
        "hidden": [one for one in controls.values() if _of_another_task(one, values["task"])],
        "groups": in_folds(shown_controls.values()),
        "regularizers": REGULARIZERS,
        "active": active_methods(values),
        "shrunk": reading("zeta"),
        "grid_groups": GRID_GROUPS,
        "presets": PRESETS,
        "preset": preset,
        "unfit": unfit(preset, values["task"]) if preset else None,
        "has_gpu": has_gpu(workers),
        "preview": preview,
        "unready": unready,
        "steps_count": STEPS_COUNT if values["epochs"] and values["max_steps"] else "",
        "told": problem or unready,
        "yaml": yaml,
        "ways": ways_of_form(request, context, dataset, partial(parse, values)),
    }
    return render(request, "training/experiment_new.html", shown, problem, status=status)


def _of_another_task(control: Control, task: str) -> bool:
    """Whether it is a choice that is not offered for this task, and is kept for when the task changes back."""
    return control.text in control.words and task not in control.option.tasks
