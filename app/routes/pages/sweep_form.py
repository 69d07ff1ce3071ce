"""The sweep form as texts: what it starts with, what a preset fills in, what was sent."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import ImmutableMultiDict

from app.db.models import Dataset
from app.db.regularizer_options import Regularizer
from app.db.task import METRICS, TaskKind
from app.regularizers import METHODS
from app.services.presets import PRESETS, Preset, Stage
from app.services.proposal import propose_for
from app.services.sweeps import SweepRequest

Values = dict[str, Any]
"""Texts by field; lists of them for ``MANY``, and for ``grid`` pairs of a field and the text of its values."""

MANY = ("text_columns", "regularizers")
FLAGS = ("include_padding", "gradient_checkpointing", "export")
BESIDE = {f"beside_{regularizer}": regularizer for regularizer in METHODS}
TEXTS = tuple(name for name in SweepRequest.model_fields if name not in {*MANY, *FLAGS, "beside", "grid"}) + tuple(
    BESIDE
)
DEFAULT = "default"
"""How null is written among the values of a grid."""


def defaults(dataset: Dataset | None, model: str) -> Values:
    """What the form starts with: the papers' settings and the likeliest task."""
    fields = SweepRequest.model_fields
    values: Values = {
        name: text_of(fields[name].get_default(call_default_factory=True)) for name in TEXTS if name in fields
    }
    beside = dict.fromkeys((*BESIDE, *FLAGS, "preset"), "")
    return values | beside | {"model": model, "regularizers": [Regularizer.ISTAR.value], "grid": []} | task_of(dataset)


def task_of(dataset: Dataset | None) -> Values:
    """The data set with its likeliest task, text columns, label column and metric."""
    values: Values = {"dataset_id": dataset.id if dataset else "", "text_columns": [], "label_column": ""}
    if dataset is None or (proposal := propose_for(dataset.hub_name, dataset.columns)) is None:
        return values
    return values | proposal.model_dump(mode="json", exclude={"n_classes"})


def preset_of(values: Mapping[str, Any]) -> Preset | None:
    """The preset that the form is filled in from, if there is one of that name."""
    name = values.get("preset", "")
    return PRESETS[Stage(name)] if name in set(Stage) else None


def texts_of(preset: Preset, *, gpu: bool) -> Values:
    """The settings of a preset as texts; without a GPU in float32, as half precision is slower or lacking there."""
    return texts_of_settings(preset.settings if gpu else preset.settings | {"precision": "fp32"})


def texts_of_settings(settings: Mapping[str, Any]) -> Values:
    """Settings of a sweep, as JSON holds them, as texts; a grid that the form has no row for is left out."""
    values: Values = {name: text_of(value) for name, value in settings.items() if name in TEXTS}
    values |= {name: "true" if settings[name] is True else "" for name in FLAGS if name in settings}
    values |= {name: settings[name] for name in MANY if name in settings}
    values |= {f"beside_{name}": text_of(value) for name, value in settings.get("beside", {}).items()}
    if "regularizers" in settings:
        values["regularizers"] = settings["regularizers"] or [Regularizer.NONE.value]
    rows = settings.get("grid", {}).items()
    return values | {"grid": [(name, ", ".join(map(grid_text, some))) for name, some in rows if name != "beside"]}


def read_values(data: ImmutableMultiDict[str, Any]) -> Values:
    """The fields of a submitted form or of a query string."""
    known = {*TEXTS, *FLAGS, "preset"}
    values: Values = {name: str(value).strip() for name, value in data.items() if name in known}
    values |= {name: [str(one) for one in data.getlist(name) if one] for name in MANY if name in data}
    if "grid_field" in data:
        values["grid"] = list(_rows(data))
    return values


def query_of(values: Values) -> str:
    """The query string that ``read_values`` reads as these values."""
    return urlencode(pairs_of(values))


def pairs_of(values: Values) -> list[tuple[str, str]]:
    """The fields of a form that ``read_values`` reads as these values."""
    pairs = [(name, one) for name in MANY for one in values.get(name, [])]
    pairs += [pair for row in values.get("grid", []) for pair in zip(("grid_field", "grid_values"), row, strict=True)]
    return pairs + [(name, text) for name, text in values.items() if name not in (*MANY, "grid")]


def fitting(values: Values) -> Values:
    """With a metric of the task, which was changed, where the one chosen no longer fits."""
    task = TaskKind(values["task"]) if values["task"] in set(TaskKind) else None
    if task is None or values["metric"] in METRICS[task]:
        return values
    return values | {"metric": METRICS[task][0].value}


def active_methods(values: Mapping[str, Any]) -> list[Regularizer]:
    """The regularizers whose settings count: those swept, and those beside every run."""
    beside = {regularizer for name, regularizer in BESIDE.items() if values[name]}
    return [one for one in METHODS if one in values["regularizers"] or one in beside]


def text_of(value: Any) -> str:
    """A setting as it is typed: 3e-05 as 3e-5, a list by commas, nothing for null."""
    if isinstance(value, list):
        return ", ".join(text_of(one) for one in value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value).removesuffix(".0").replace("e-0", "e-").replace("e+", "e")
    return str(value) if isinstance(value, str | int) else ""


def grid_text(value: Any) -> str:
    """One value of a grid as it is typed: layer numbers by blanks, so that commas part the values."""
    return text_of(value).replace(",", "") or DEFAULT


def _rows(data: ImmutableMultiDict[str, Any]) -> Iterator[tuple[str, str]]:
    """The rows of the grid that say something."""
    for field, texts in zip(data.getlist("grid_field"), data.getlist("grid_values"), strict=False):
        if field or str(texts).strip():
            yield str(field), str(texts).strip()
