"""Values of the launch forms: defaults, presets, submitted texts, and parsing into requests."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from starlette.datastructures import ImmutableMultiDict

from app.core.validation_messages import list_messages
from app.db.config import TrainingOptions, regularizers_reading
from app.db.models import Dataset
from app.db.options.option import collect_options, list_type
from app.db.study import Search
from app.training.columns import propose_task
from app.training.experiments import StudyRequest
from app.training.grid_expansion import GRID_FIELDS
from app.training.option_form import (
    Control,
    build_controls,
    field_pairs,
    read_fields,
    split_values,
    to_json_value,
    to_text,
    with_ascii_minus,
)
from app.training.presets import PRESETS, Preset, Stage
from app.training.sweeps import SweepRequest
from isoscope.core.errors import FieldError, InvalidError, combine_errors
from isoscope.core.task import METRIC_TITLES, METRICS, TaskKind
from isotropy.catalog import REGULARIZERS, Regularizer

FormValues = dict[str, Any]
"""Texts by field. Lists of texts for ``LIST_FIELDS``; for ``grid`` pairs of an option and the text of its values."""

FIELDS = SweepRequest.model_fields
LIST_FIELDS = ("text_columns", "regularizers")
FLAG_FIELDS = tuple(name for name, control in build_controls(SweepRequest, {}).items() if control.is_flag)
EXTRA_PENALTY_FIELDS = {f"fixed_{regularizer}": regularizer for regularizer in REGULARIZERS}
"""Regularizers by form field for the λ of a penalty added to every run."""
TEXT_FIELDS = tuple(name for name in FIELDS if name not in {*LIST_FIELDS, *FLAG_FIELDS, "fixed_regularizers", "grid"})
LABELS = {name: option.label for name, option in collect_options(SweepRequest).items()} | {
    field: f"λ of {REGULARIZERS[regularizer].name}" for field, regularizer in EXTRA_PENALTY_FIELDS.items()
}
TASKS_WITHOUT_CLASSES = set(TaskKind) - {TaskKind.CLASSIFICATION}
NEW_FORM_VALUES = {"lambdas": "-0.1, -0.01, 0, 0.1, 1", "seeds": "0, 1, 2"}
"""The fewest λ and seeds that allow a verdict. The defaults of a request are fewer."""
NULL_TEXT = "default"
"""Text of null among the values of a grid."""

_FORM_GRID_FIELDS = [name for name in GRID_FIELDS if name != "fixed_regularizers"]
GRID_GROUPS = {
    "Training": [name for name in _FORM_GRID_FIELDS if regularizers_reading(name) is None],
    "Regularizers": [name for name in _FORM_GRID_FIELDS if regularizers_reading(name) is not None],
}
"""Options that the form offers for a grid. Only the API takes a grid over extra penalties."""


def default_values(dataset: Dataset | None, model: str) -> FormValues:
    """Return a form's initial values: the default of each option and the likeliest task."""
    values: FormValues = {name: to_text(FIELDS[name].get_default(call_default_factory=True)) for name in TEXT_FIELDS}
    values |= dict.fromkeys((*EXTRA_PENALTY_FIELDS, *FLAG_FIELDS, "preset"), "")
    return values | {"model": model, "regularizers": [Regularizer.ISTAR.value], "grid": []} | task_values(dataset)


def task_values(dataset: Dataset | None) -> FormValues:
    """Return a data set's id and its likeliest task as form values; empty ones if there is none."""
    values: FormValues = {"dataset_id": dataset.id if dataset else "", "text_columns": [], "label_column": ""}
    if dataset is None or (proposal := propose_task(dataset.hub_name, dataset.columns)) is None:
        return values
    return values | proposal.model_dump(mode="json", exclude={"n_classes"})


def find_preset(values: Mapping[str, Any]) -> Preset | None:
    name = values.get("preset", "")
    return PRESETS[Stage(name)] if name in set(Stage) else None


def preset_values(preset: Preset, *, has_gpu: bool) -> FormValues:
    """Return a preset's form values, with float32 if there is no GPU."""
    return to_form_values(preset.settings if has_gpu else preset.settings | {"precision": "fp32"})


def to_form_values(settings: Mapping[str, Any]) -> FormValues:
    """Return settings as form values, without the grid fields that the form does not offer."""
    values: FormValues = {name: to_text(value) for name, value in settings.items() if name in TEXT_FIELDS}
    values |= {name: "true" if settings[name] is True else "" for name in FLAG_FIELDS if name in settings}
    values |= {name: settings[name] for name in LIST_FIELDS if name in settings}
    values |= {f"fixed_{name}": to_text(value) for name, value in settings.get("fixed_regularizers", {}).items()}
    if "regularizers" in settings:
        values["regularizers"] = settings["regularizers"] or [Regularizer.NONE.value]
    grid = []
    for name, grid_values in settings.get("grid", {}).items():
        if name in _FORM_GRID_FIELDS:  # Layers "1, 2" become "1 2", since commas separate values
            grid.append((name, ", ".join(to_text(value).replace(",", "") or NULL_TEXT for value in grid_values)))
    return values | {"grid": grid}


def read_values(data: ImmutableMultiDict[str, Any]) -> FormValues:
    values: FormValues = read_fields(data, {*TEXT_FIELDS, *FLAG_FIELDS, *EXTRA_PENALTY_FIELDS, "preset"}, LIST_FIELDS)
    if "grid_field" in data:
        rows = zip(data.getlist("grid_field"), data.getlist("grid_values"), strict=False)
        values["grid"] = [(str(name), str(texts).strip()) for name, texts in rows if name or str(texts).strip()]
    return values


def form_pairs(values: FormValues) -> list[tuple[str, str]]:
    """Return form fields that ``read_values`` reads back as these values."""
    fields = {name: value for name, value in values.items() if name != "grid"}
    grid = [pair for row in values.get("grid", []) for pair in zip(("grid_field", "grid_values"), row, strict=True)]
    return [*field_pairs(fields), *grid]


def with_fitting_metric(values: FormValues) -> FormValues:
    """Replace a metric that does not fit the task by the task's default metric."""
    task = TaskKind(values["task"]) if values["task"] in set(TaskKind) else None
    if task is None or values["metric"] in METRICS[task]:
        return values
    return values | {"metric": METRICS[task][0].value}


def sweep_controls(values: FormValues, *, has_gpu: bool) -> tuple[dict[str, Control], dict[str, Control]]:
    """Return all controls, and those that apply to the current values."""
    controls = build_controls(SweepRequest, values)
    task, swept = values["task"], values["regularizers"]
    active = {entry for name, entry in EXTRA_PENALTY_FIELDS.items() if values[name] or entry in swept}
    metrics = METRICS[TaskKind(task)] if task in set(TaskKind) else tuple(METRIC_TITLES)
    metric_titles: dict[str, str] = {metric: METRIC_TITLES[metric] for metric in metrics}
    controls["metric"] = replace(controls["metric"], offered_words=metric_titles)
    if not has_gpu:
        controls["precision"] = replace(controls["precision"], note=" No worker has a GPU.")
    visible = {
        name: control
        for name, control in controls.items()
        if (control.option.applies_to is None or control.option.applies_to.intersection(active))
        and (task not in set(TaskKind) or task in control.option.tasks)
    }
    return controls, visible


def parse_sweep(values: FormValues) -> SweepRequest:
    """Return the request of a form. Raise InvalidError with all errors, each at its field."""
    settings: dict[str, Any] = {
        name: to_json_value(FIELDS[name], values[name]) for name in TEXT_FIELDS if name in values
    }
    settings |= {name: values[name] for name in LIST_FIELDS if name in values}
    settings |= {name: bool(values.get(name)) for name in FLAG_FIELDS}
    settings["fixed_regularizers"] = {
        regularizer: with_ascii_minus(values[name])
        for name, regularizer in EXTRA_PENALTY_FIELDS.items()
        if values.get(name)
    }
    if settings.get("max_steps"):
        settings["epochs"] = None
    if settings.get("task") in TASKS_WITHOUT_CLASSES:
        settings["entropy_by_label"] = False
    rows = values.get("grid", [])
    settings["grid"], errors = _parse_grid(rows)
    try:
        request = SweepRequest.model_validate(settings)
    except ValidationError as error:
        grid_fields: dict[str, str] = {}
        for number, (name, _) in enumerate(rows, start=1):
            grid_fields.setdefault(name, f"grid-{number}")
        for sentence, location in list_messages(error.errors(), form=True):
            match [str(part) for part in location]:
                case ["grid", name, *_] if name in grid_fields:
                    field = grid_fields[name]
                case ["fixed_regularizers", name, *_]:
                    field = f"fixed_{name}"
                case [name, *_]:
                    field = name
            errors.append(FieldError(field, sentence))
    if errors:
        raise combine_errors(errors)
    return request


def _parse_grid(rows: Sequence[tuple[str, str]]) -> tuple[dict[str, list[Any]], list[FieldError]]:
    """Return values by option, and an error for each row without option or values, or with an option used before."""
    grid: dict[str, list[Any]] = {}
    errors = []
    for number, (name, values_text) in enumerate(rows, start=1):
        if name not in _FORM_GRID_FIELDS:
            errors.append((number, f"Choose an option for the values {values_text}."))
        elif name in grid:
            errors.append((number, f"`{name}` is in the grid twice. Join its values in one row."))
        elif not values_text:
            errors.append((number, f"Enter the values of `{name}`."))
        else:
            parts = (
                values_text.split(",")
                if list_type(TrainingOptions.model_fields[name].annotation)
                else split_values(values_text)
            )
            grid[name] = [
                None if text == NULL_TEXT else to_json_value(TrainingOptions.model_fields[name], text)
                for text in filter(None, map(str.strip, parts))
            ]
    return grid, [FieldError(f"grid-{number}", sentence) for number, sentence in errors]


def unsupported_grid_error() -> InvalidError:
    """Return the error for a grid over extra penalties, which the form cannot show."""
    return InvalidError(
        "The form has no row for a grid over sets of extra penalties. Launch this by isoscope sweep or POST "
        "/api/experiments, or take `fixed_regularizers` out of the grid.",
        "grid",
    )


SEARCH_PREFIX = "search_"
SEARCH_OPTIONS = collect_options(Search)
SEARCH_LABELS = LABELS | {name: option.label for name, option in SEARCH_OPTIONS.items()}


def format_search_options(search: Mapping[str, Any]) -> dict[str, str]:
    return {name: to_text(value) for name, value in search.items() if name in SEARCH_OPTIONS}


def read_search_options(data: Mapping[str, Any]) -> dict[str, str]:
    fields = {name: data.get(f"{SEARCH_PREFIX}{name}") for name in SEARCH_OPTIONS}
    return {name: str(text).strip() for name, text in fields.items() if text is not None}


def list_search_fields(values: FormValues, search: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return name and text of each field of a search's form: those of its sweep form, then its own with a prefix."""
    return [*form_pairs(values), *((SEARCH_PREFIX + name, text) for name, text in search.items())]


def parse_study(values: FormValues, search: Mapping[str, str]) -> StudyRequest:
    """Return the search requested by a sweep form and the search's own fields. Raise InvalidError with all errors."""
    errors: list[FieldError] = []
    sweep = None
    try:
        sweep = parse_sweep(values)
    except InvalidError as error:
        errors += error.errors
    if sweep is not None and sweep.grid:
        sentence = (
            f"A search has no grid, and the sweep form ranges over {', '.join(f'`{name}`' for name in sweep.grid)}. "
            "Take it out there, or launch the sweep."
        )
        errors.append(FieldError("grid", sentence))
    settings = {name: to_json_value(Search.model_fields[name], text) for name, text in search.items()}
    try:
        ranges = Search.model_validate(settings | {"prune": search.get("prune") == "true"})
    except ValidationError as error:
        errors += [
            FieldError(str(location[0]) if location else "lam_low", sentence)  # an error of several fields has none
            for sentence, location in list_messages(error.errors(), form=True)
        ]
    if sweep is None or errors:
        raise combine_errors(errors)
    options: dict[str, Any] = sweep.model_dump(include=set(TrainingOptions.model_fields))
    return StudyRequest(**options, name=sweep.name, dataset_id=sweep.dataset_id, seeds=sweep.seeds, search=ranges)
