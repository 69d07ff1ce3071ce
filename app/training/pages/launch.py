"""The forms that launch a sweep or a search. A YAML file can fill them in."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Request, Response, UploadFile

from app.context import Context
from app.core.names import to_file_name
from app.db.models import Dataset
from app.db.study import Search
from app.training import sweep_form
from app.training.columns import propose_task
from app.training.datasets import list_trainable_datasets
from app.training.experiments import StudyRequest, create_experiment, create_study, get_experiment, plan_study
from app.training.failure_advice import prefill_form
from app.training.models import list_models
from app.training.option_form import CHECKED, MAX_ADDRESS, build_controls, folds_by_section, form_address, label_fields
from app.training.presets import PRESETS, misfit_warning
from app.training.queue_status import has_gpu, list_workers
from app.training.relaunch import form_snippets, read_document, request_of, to_yaml, valid_settings
from app.training.sweep_preview import preview_sweep
from app.training.sweeps import SweepRequest, plan_sweep
from app.web.dependencies import ContextDep, FormDep
from app.web.responses import attachment_headers, redirect_to, render
from app.web.uploads import chosen_file
from isoscope.core.errors import FieldError, InvalidError, IsoscopeError, combine_errors
from isoscope.core.formatting import MAX_SHOWN_CHARACTERS
from isoscope.files.yaml_document import FIELD, MAX_CHARACTERS, read_yaml
from isotropy.catalog import REGULARIZERS, Regularizer

router = APIRouter(prefix="/experiments")

SWEEP_ADDRESS = "/experiments/new"
SEARCH_ADDRESS = "/experiments/search"
EPOCHS_IGNORED = "Max steps is set, so epochs are ignored."


@router.get("/new")
def new_experiment(request: Request, context: ContextDep) -> Response:
    query = request.query_params
    if CHECKED in query:
        return sweep_page(request, context, sweep_form.read_values(query), checked=True, status=200)
    prefilled_form = prefill_form(context, query.get("run"), query.get("experiment"))
    values = _starting_values(request, context, prefilled_form.values)
    return sweep_page(request, context, values, prefilled_form.problem, status=200)


def _starting_values(request: Request, context: Context, prefilled: sweep_form.FormValues) -> sweep_form.FormValues:
    """Return the values of a new form: from the URL, else prefilled, else from the preset, else the defaults."""
    requested = prefilled | sweep_form.read_values(request.query_params)
    datasets = list_trainable_datasets(context)
    dataset = _find_dataset(datasets, requested) or next(iter(datasets), None)
    preset = sweep_form.find_preset(requested)
    preset_texts = sweep_form.preset_values(preset, has_gpu=has_gpu(list_workers(context))) if preset else {}
    values = (
        sweep_form.default_values(dataset, list_models(context.settings)[0].name)
        | sweep_form.NEW_FORM_VALUES
        | preset_texts
        | requested
    )
    column_names = {column.name for column in dataset.columns} if dataset else set()
    is_new_dataset = request.query_params.get("columns_of") != values["dataset_id"]
    if is_new_dataset and not {values["label_column"], *values["text_columns"]} <= column_names:
        values |= sweep_form.task_values(dataset)
    return sweep_form.with_fitting_metric(values)


def _find_dataset(datasets: list[Dataset], values: sweep_form.FormValues) -> Dataset | None:
    return next((dataset for dataset in datasets if dataset.id == values.get("dataset_id")), None)


@router.post("")
def launch_experiment(request: Request, context: ContextDep, form: FormDep) -> Response:
    values = sweep_form.read_values(form)
    try:
        experiment = create_experiment(context, sweep_form.parse_sweep(values))
    except IsoscopeError as error:
        # Invalid input redirects to an address that can be reloaded. Other errors are shown in place.
        pairs = sweep_form.form_pairs(values)
        if isinstance(error, InvalidError) and (address := form_address(SWEEP_ADDRESS, pairs)):
            return redirect_to(address)
        return sweep_page(request, context, values, error)
    return redirect_to(f"/experiments/{experiment.id}")


def sweep_page(
    request: Request,
    context: Context,
    values: sweep_form.FormValues,
    problem: IsoscopeError | None = None,
    *,
    checked: bool = False,
    status: int | None = None,
    yaml: str = "",
) -> Response:
    """Render the sweep form; missing values are defaults. If ``checked``, show the values' errors, not ``problem``."""
    values = sweep_form.default_values(None, "") | values
    datasets, workers = list_trainable_datasets(context), list_workers(context)
    dataset = _find_dataset(datasets, values)
    preview, plan_error = None, None
    if dataset or checked:
        try:
            preview = preview_sweep(context, plan_sweep(context, sweep_form.parse_sweep(values), ask_hub=checked))
        except IsoscopeError as error:
            plan_error = label_fields(error, sweep_form.LABELS)
    if checked:
        problem = plan_error
    elif problem:
        problem = label_fields(problem, sweep_form.LABELS)
    preset = sweep_form.find_preset(values)
    controls, visible_controls = sweep_form.sweep_controls(values, has_gpu=has_gpu(workers))
    # The form keeps choices that the task does not offer, in case the task changes back.
    hidden = [
        control
        for control in controls.values()
        if control.text in control.words and values["task"] not in control.option.tasks
    ]
    template_values: dict[str, Any] = {
        "datasets": datasets,
        "dataset": dataset,
        "proposal": propose_task(dataset.hub_name, dataset.columns) if dataset else None,
        "models": list_models(context.settings),
        "values": values,
        "labels": sweep_form.LABELS,
        "extra_fields": list(sweep_form.EXTRA_PENALTY_FIELDS),
        "grid_fields": ["grid", *(f"grid-{number}" for number, _ in enumerate(values["grid"], start=1))],
        "controls": controls,
        "hidden": hidden,
        "groups": folds_by_section(visible_controls.values()),
        "regularizers": REGULARIZERS,
        "grid_groups": sweep_form.GRID_GROUPS,
        "presets": PRESETS,
        "preset": preset,
        "misfit_warning": misfit_warning(preset, values["task"]) if preset else None,
        "has_gpu": has_gpu(workers),
        "preview": preview,
        "plan_error": plan_error,
        "epochs_ignored": EPOCHS_IGNORED if values["epochs"] and values["max_steps"] else "",
        "field_problem": plan_error or problem,
        "yaml": yaml,
        "snippets": form_snippets(request, context, dataset, partial(sweep_form.parse_sweep, values)),
    }
    return render(request, "training/experiment_new.html", template_values, problem, status=status)


@router.get("/search")
def new_study(request: Request, context: ContextDep) -> Response:
    query = request.query_params
    if CHECKED in query:
        values, search = sweep_form.read_values(query), sweep_form.read_search_options(query)
        return search_page(request, context, values, search, checked=True, status=200)
    prefilled_form = prefill_form(context, None, query.get("experiment"))
    values = _starting_values(request, context, prefilled_form.values)
    swept_regularizers = [regularizer for regularizer in values["regularizers"] if regularizer in REGULARIZERS]
    search = sweep_form.format_search_options(Search().model_dump(mode="json"))
    search["regularizer"] = swept_regularizers[0] if swept_regularizers else Regularizer.ISTAR.value
    search |= sweep_form.format_search_options(prefilled_form.search) | sweep_form.read_search_options(query)
    return search_page(request, context, values, search, prefilled_form.problem, status=200)


@router.post("/search")
def launch_study(request: Request, context: ContextDep, form: FormDep) -> Response:
    values, search = sweep_form.read_values(form), sweep_form.read_search_options(form)
    try:
        experiment = create_study(context, sweep_form.parse_study(values, search))
    except IsoscopeError as error:
        pairs = sweep_form.list_search_fields(values, search)
        if isinstance(error, InvalidError) and (address := form_address(SEARCH_ADDRESS, pairs)):
            return redirect_to(address)
        return search_page(request, context, values, search, error)
    return redirect_to(f"/experiments/{experiment.id}")


def search_page(
    request: Request,
    context: Context,
    values: sweep_form.FormValues,
    search: Mapping[str, str],
    problem: IsoscopeError | None = None,
    *,
    checked: bool = False,
    status: int | None = None,
    yaml: str = "",
) -> Response:
    """Render the search form; arguments as in ``sweep_page``."""
    values = sweep_form.default_values(None, "") | values
    dataset = _find_dataset(list_trainable_datasets(context), values)
    if checked:
        problem = None
        try:
            plan_study(context, sweep_form.parse_study(values, search))
        except IsoscopeError as error:
            problem = error
    if problem:
        problem = label_fields(problem, sweep_form.SEARCH_LABELS)
        errors = [
            FieldError(f"{sweep_form.SEARCH_PREFIX}{field}" if field in sweep_form.SEARCH_OPTIONS else field, detail)
            for field, detail in problem.errors
        ]
        problem = replace(problem, message=errors[0].detail, field=errors[0].field, other_errors=tuple(errors[1:]))
    controls = [
        *build_controls(Search, search, sweep_form.SEARCH_PREFIX).values(),
        build_controls(StudyRequest, values)["seeds"],
    ]
    template_values = {
        "values": values,
        "hidden": [(name, text) for name, text in sweep_form.form_pairs(values) if name != "seeds"],
        "back": f"{SWEEP_ADDRESS}?{urlencode(sweep_form.form_pairs(values))}",
        "dataset": dataset,
        "groups": folds_by_section(controls),
        "labels": {control.name: control.option.label for control in controls},
        "yaml": yaml,
        "snippets": form_snippets(request, context, dataset, partial(sweep_form.parse_study, values, search)),
    }
    return render(request, "training/experiment_search.html", template_values, problem, status=status)


@router.post("/new/yaml")
def fill_in_from_yaml(
    request: Request,
    context: ContextDep,
    yaml: Annotated[str, Form()] = "",
    file: Annotated[UploadFile | str | None, Form()] = None,
) -> Response:
    text, upload = yaml, chosen_file(file)
    if upload is not None:
        try:
            # A character has at most four bytes in UTF-8.
            text = upload.stream.read(4 * MAX_CHARACTERS + 1).decode() or yaml
        except UnicodeDecodeError:
            error = InvalidError(f"Expected a file of text in UTF-8, got other bytes in {upload.filename}.", FIELD)
            return sweep_page(request, context, {}, error, yaml=yaml)
    response = _page_from_yaml(request, context, text)
    address = f"{SWEEP_ADDRESS}/yaml?{urlencode({'yaml': text})}"
    if response.status_code == HTTPStatus.SEE_OTHER or len(address) > MAX_ADDRESS:
        return response
    return redirect_to(address)


@router.get("/new/yaml")
def show_form_from_yaml(request: Request, context: ContextDep, yaml: str = "") -> Response:
    """Show the form filled in from a YAML document, at an address that can be reloaded."""
    return _page_from_yaml(request, context, yaml)


def _page_from_yaml(request: Request, context: Context, yaml: str) -> Response:
    try:
        document = read_yaml(yaml)
    except InvalidError as error:
        return sweep_page(request, context, {}, error, yaml=yaml)
    datasets, dataset_id = list_trainable_datasets(context), document.get("dataset_id")
    replacement_errors = []
    if datasets and all(dataset.id != dataset_id for dataset in datasets):
        named_dataset = "no data set"
        if dataset_id is not None:
            named_dataset = f"a data set that is not here ({dataset_id!s:.{MAX_SHOWN_CHARACTERS}})"
        sentence = f"The file names {named_dataset}; {datasets[0].name} is chosen instead."
        document, replacement_errors = {**document, "dataset_id": datasets[0].id}, [FieldError("dataset_id", sentence)]
    settings = valid_settings(document)
    values = sweep_form.default_values(None, "") | sweep_form.to_form_values(settings)
    render_form = partial(sweep_page, request, context, values, yaml=yaml)
    address = f"{SWEEP_ADDRESS}?{urlencode(sweep_form.form_pairs(values))}"
    if "search" in document:
        search = sweep_form.format_search_options(settings.get("search") or Search().model_dump(mode="json"))
        render_form = partial(search_page, request, context, values, search, yaml=yaml)
        address = f"{SEARCH_ADDRESS}?{urlencode(sweep_form.list_search_fields(values, search))}"
    try:
        if "search" in document:
            plan_study(context, read_document(StudyRequest, document), ask_hub=False)
        else:
            sweep = read_document(SweepRequest, document)
            if "fixed_regularizers" in sweep.grid:
                raise sweep_form.unsupported_grid_error()
            plan_sweep(context, sweep, ask_hub=False)
    except IsoscopeError as error:
        return render_form(replace(error, other_errors=(*error.other_errors, *replacement_errors)))
    if replacement_errors:
        return render_form(combine_errors(replacement_errors), status=200)
    return redirect_to(address)


@router.get("/{experiment_id}/request.yaml")
def show_yaml(context: ContextDep, experiment_id: str) -> Response:
    experiment = get_experiment(context, experiment_id)
    text = to_yaml(request_of(experiment), experiment.dataset)
    headers = attachment_headers(f"{to_file_name(experiment.name) or 'sweep'}.yaml")
    return Response(text, media_type="application/yaml", headers=headers)
