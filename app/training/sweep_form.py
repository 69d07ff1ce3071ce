"""The sweep form as texts: what it starts with, what a preset fills in, what was sent, and what request it means."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from starlette.datastructures import ImmutableMultiDict

from app.core.validation_messages import messages_of
from app.db.config import TrainingOptions, applies_to
from app.db.models import Dataset
from app.db.options.option import list_type, options_of
from app.db.study import Search
from app.training.columns import propose_for
from app.training.experiments import StudyRequest
from app.training.grid_expansion import GRID_FIELDS
from app.training.option_form import (
    Control,
    controls_of,
    field_pairs,
    meaning,
    plain,
    read_fields,
    split,
    text_of,
)
from app.training.presets import PRESETS, Preset, Stage
from app.training.sweeps import SweepRequest
from isoscope.core.errors import FieldError, InvalidError, invalid
from isoscope.core.task import METRIC_TITLES, METRICS, TaskKind
from isotropy.catalog import REGULARIZERS, Regularizer

Values = dict[str, Any]
"""Texts by field; lists of them for ``LIST_FIELDS``, and for ``grid`` pairs of a field and the text of its values."""

FIELDS = SweepRequest.model_fields
LIST_FIELDS = ("text_columns", "regularizers")
FLAGS = tuple(name for name, control in controls_of(SweepRequest, {}).items() if control.flag)
EXTRA = {f"fixed_{regularizer}": regularizer for regularizer in REGULARIZERS}
"""Fields for the λ of each regularizer that is added to every run."""
TEXTS = tuple(name for name in FIELDS if name not in {*LIST_FIELDS, *FLAGS, "fixed_regularizers", "grid"})
LABELS = {name: option.label for name, option in options_of(SweepRequest).items()} | {
    field: f"λ of {REGULARIZERS[regularizer].name}" for field, regularizer in EXTRA.items()
}
WITHOUT_CLASSES = set(TaskKind) - {TaskKind.CLASSIFICATION}
FRESH = {"lambdas": "-1, -0.3, 0, 0.3, 1", "seeds": "0, 1, 2"}
"""A new form starts with the fewest λ and seeds that can decide; a request that leaves them out means fewer."""
DEFAULT = "default"
"""How null is written among the values of a grid."""

_OFFERED = [name for name in GRID_FIELDS if name != "fixed_regularizers"]
GRID_GROUPS = {
    "Training": [name for name in _OFFERED if applies_to(name) is None],
    "Regularizers": [name for name in _OFFERED if applies_to(name) is not None],
}
"""Options that the form offers for a grid; sets of extra penalties are for the API."""


def defaults(dataset: Dataset | None, model: str) -> Values:
    """Return the form's first values: the papers' settings and the likeliest task."""
    values: Values = {name: text_of(FIELDS[name].get_default(call_default_factory=True)) for name in TEXTS}
    values |= dict.fromkeys((*EXTRA, *FLAGS, "preset"), "")
    return values | {"model": model, "regularizers": [Regularizer.ISTAR.value], "grid": []} | task_of(dataset)


def task_of(dataset: Dataset | None) -> Values:
    values: Values = {"dataset_id": dataset.id if dataset else "", "text_columns": [], "label_column": ""}
    if dataset is None or (proposal := propose_for(dataset.hub_name, dataset.columns)) is None:
        return values
    return values | proposal.model_dump(mode="json", exclude={"n_classes"})


def preset_of(values: Mapping[str, Any]) -> Preset | None:
    name = values.get("preset", "")
    return PRESETS[Stage(name)] if name in set(Stage) else None


def texts_of(preset: Preset, *, gpu: bool) -> Values:
    """Return a preset as texts; float32 without a GPU."""
    return texts_of_settings(preset.settings if gpu else preset.settings | {"precision": "fp32"})


def texts_of_settings(settings: Mapping[str, Any]) -> Values:
    """Return sweep settings as texts, without grids that the form has no row for."""
    values: Values = {name: text_of(value) for name, value in settings.items() if name in TEXTS}
    values |= {name: "true" if settings[name] is True else "" for name in FLAGS if name in settings}
    values |= {name: settings[name] for name in LIST_FIELDS if name in settings}
    values |= {f"fixed_{name}": text_of(value) for name, value in settings.get("fixed_regularizers", {}).items()}
    if "regularizers" in settings:
        values["regularizers"] = settings["regularizers"] or [Regularizer.NONE.value]
    grid = []
    for name, grid_values in settings.get("grid", {}).items():
        if name in _OFFERED:  # as typed: layer numbers by blanks, since commas part values
            grid.append((name, ", ".join(text_of(value).replace(",", "") or DEFAULT for value in grid_values)))
    return values | {"grid": grid}


def read_values(data: ImmutableMultiDict[str, Any]) -> Values:
    values: Values = read_fields(data, {*TEXTS, *FLAGS, *EXTRA, "preset"}, LIST_FIELDS)
    if "grid_field" in data:
        rows = zip(data.getlist("grid_field"), data.getlist("grid_values"), strict=False)
        values["grid"] = [(str(name), str(texts).strip()) for name, texts in rows if name or str(texts).strip()]
    return values


def pairs_of(values: Values) -> list[tuple[str, str]]:
    """Return form fields that ``read_values`` reads back as these values."""
    fields = {name: value for name, value in values.items() if name != "grid"}
    grid = [pair for row in values.get("grid", []) for pair in zip(("grid_field", "grid_values"), row, strict=True)]
    return [*field_pairs(fields), *grid]


def with_fitting_metric(values: Values) -> Values:
    """Replace a metric that the task does not have by the task's usual one."""
    task = TaskKind(values["task"]) if values["task"] in set(TaskKind) else None
    if task is None or values["metric"] in METRICS[task]:
        return values
    return values | {"metric": METRICS[task][0].value}


def active_methods(values: Mapping[str, Any]) -> list[Regularizer]:
    """Return the regularizers whose options have an effect: swept ones, and extra penalties on every run."""
    fixed = {regularizer for name, regularizer in EXTRA.items() if values[name]}
    return [item for item in REGULARIZERS if item in values["regularizers"] or item in fixed]


def sweep_controls(values: Values, *, gpu: bool) -> tuple[dict[str, Control], dict[str, Control]]:
    """Return all controls, and those that apply to the current values."""
    controls = controls_of(SweepRequest, values)
    task, active = values["task"], active_methods(values)
    metrics = METRICS[TaskKind(task)] if task in set(TaskKind) else tuple(METRIC_TITLES)
    controls["metric"] = replace(controls["metric"], offered={item: METRIC_TITLES[item] for item in metrics})
    if not gpu:
        controls["precision"] = replace(controls["precision"], note=" No worker has a GPU.")
    visible = {
        name: control
        for name, control in controls.items()
        if (control.option.applies_to is None or control.option.applies_to.intersection(active))
        and (task not in set(TaskKind) or task in control.option.tasks)
    }
    return controls, visible


def parse(values: Values) -> SweepRequest:
    settings: dict[str, Any] = {name: meaning(FIELDS[name], values[name]) for name in TEXTS if name in values}
    settings |= {name: values[name] for name in LIST_FIELDS if name in values}
    settings |= {name: bool(values.get(name)) for name in FLAGS}
    settings["fixed_regularizers"] = {item: plain(values[name]) for name, item in EXTRA.items() if values.get(name)}
    if settings.get("max_steps"):
        settings["epochs"] = None
    if settings.get("task") in WITHOUT_CLASSES:
        settings["entropy_by_label"] = False
    rows = values.get("grid", [])
    settings["grid"], errors = _grid(rows)
    try:
        request = SweepRequest.model_validate(settings)
    except ValidationError as error:
        row_fields = {name: f"grid-{number}" for number, (name, _) in reversed([*enumerate(rows, start=1)])}
        for sentence, location in messages_of(error.errors(), form=True):
            match [str(part) for part in location]:
                case ["grid", name, *_] if name in row_fields:
                    field = row_fields[name]
                case ["fixed_regularizers", name, *_]:
                    field = f"fixed_{name}"
                case [field, *_]:
                    pass
            errors.append(FieldError(field, sentence))
    if errors:
        raise invalid(errors)
    return request


def _grid(rows: Sequence[tuple[str, str]]) -> tuple[dict[str, list[Any]], list[FieldError]]:
    """Return the values of each row, and errors of rows without an option."""
    grid: dict[str, list[Any]] = {}
    errors = []
    for number, (name, texts) in enumerate(rows, start=1):
        if name not in _OFFERED:
            errors.append((number, f"Choose an option for the values {texts}."))
        elif name in grid:
            errors.append((number, f"`{name}` is in the grid twice. Join its values in one row."))
        elif not texts:
            errors.append((number, f"Enter the values of `{name}`."))
        else:
            parts = texts.split(",") if list_type(TrainingOptions.model_fields[name].annotation) else split(texts)
            grid[name] = [
                None if text == DEFAULT else meaning(TrainingOptions.model_fields[name], text)
                for text in map(str.strip, parts)
            ]
    return grid, [FieldError(f"grid-{number}", sentence) for number, sentence in errors]


def grid_without_row() -> InvalidError:
    """Return the error for a grid over extra penalties, which the form cannot show."""
    return InvalidError(
        "The form has no row for a grid over sets of extra penalties. Launch this by isoscope sweep or POST "
        "/api/experiments, or take `fixed_regularizers` out of the grid.",
        "grid",
    )


SEARCH_PREFIX = "search_"
SEARCH_OPTIONS = options_of(Search)
SEARCH_LABELS = LABELS | {name: option.label for name, option in SEARCH_OPTIONS.items()}


def search_texts(search: Mapping[str, Any]) -> dict[str, str]:
    return {name: text_of(value) for name, value in search.items() if name in SEARCH_OPTIONS}


def read_search(data: Mapping[str, Any]) -> dict[str, str]:
    fields = {name: data.get(f"{SEARCH_PREFIX}{name}") for name in SEARCH_OPTIONS}
    return {name: str(text).strip() for name, text in fields.items() if text is not None}


def search_pairs(values: Values, search: Mapping[str, str]) -> list[tuple[str, str]]:
    return [*pairs_of(values), *((SEARCH_PREFIX + name, text) for name, text in search.items())]


def parse_search(values: Values, search: Mapping[str, str]) -> StudyRequest:
    errors: list[FieldError] = []
    sweep = None
    try:
        sweep = parse(values)
    except InvalidError as error:
        errors += error.errors
    if sweep is not None and sweep.grid:
        sentence = (
            f"A search has no grid, and the sweep form ranges over {', '.join(f'`{name}`' for name in sweep.grid)}. "
            "Take it out there, or launch the sweep."
        )
        errors.append(FieldError("grid", sentence))
    settings = {name: meaning(Search.model_fields[name], text) for name, text in search.items()}
    try:
        ranges = Search.model_validate(settings | {"prune": search.get("prune") == "true"})
    except ValidationError as error:
        errors += [
            FieldError(str(location[0]) if location else "lam_low", sentence)
            for sentence, location in messages_of(error.errors(), form=True)
        ]
    if sweep is None or errors:
        raise invalid(errors)
    options: dict[str, Any] = sweep.model_dump(include=set(TrainingOptions.model_fields))
    return StudyRequest(**options, name=sweep.name, dataset_id=sweep.dataset_id, seeds=sweep.seeds, search=ranges)
