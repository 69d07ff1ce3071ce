"""The sweep form: what it starts with, and what its texts mean."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from starlette.datastructures import ImmutableMultiDict

from app.db.hub_tasks import TASKS, HubName
from app.db.models import Dataset
from app.errors import InvalidError
from app.services.experiments import SweepRequest

Values = dict[str, Any]
"""Texts by field; ``text_columns`` is a list of them."""

LISTS = ("lambdas", "seeds", "layers")
OPTIONAL = ("name", "layers", "epochs", "max_steps", "train_rows", "validation_rows")

EXPECTED = {
    "name": "a name of at most 200 characters",
    "dataset_id": "a data set",
    "text_columns": "one or two text columns",
    "label_column": "a label column",
    "model": "a model",
    "regularizer": "I-STAR or none",
    "lambdas": "numbers separated by commas, such as -1, 0, 1",
    "zeta": "a number from 0 to 1",
    "seeds": "whole numbers from 0, separated by commas, such as 0, 1, 2",
    "layers": "layer numbers from 1, separated by commas, or nothing for all layers",
    "epochs": "a whole number from 1 to 1000, or steps instead",
    "max_steps": "a whole number from 1, or epochs instead",
    "batch_size": "a whole number from 1 to 4096",
    "learning_rate": "a number above 0 and at most 1, such as 3e-5",
    "weight_decay": "a number from 0 to 1",
    "schedule": "constant or linear",
    "metric": "accuracy, F1 or Matthews correlation",
    "max_length": "a whole number from 8 to 4096",
    "train_rows": "a whole number from 2, or nothing for all rows",
    "validation_rows": "a whole number from 2, or nothing for all rows",
    "token_fraction": "a number above 0 and at most 1, such as 0.25",
    "shrinkage_points": "a whole number from 2",
    "evaluation_zeta": "a number from 0 to 1",
}


def defaults(dataset: Dataset | None, model: str) -> Values:
    """What the form starts with: the papers' settings and the likeliest columns."""
    fields = SweepRequest.model_fields
    values: Values = {name: _text(fields[name].get_default(call_default_factory=True)) for name in EXPECTED}
    return values | {"model": model, "include_padding": ""} | columns_of(dataset)


def columns_of(dataset: Dataset | None) -> Values:
    """The data set with its likeliest label column and text columns, and the metric that its task is known by."""
    if dataset is None:
        return {"dataset_id": "", "text_columns": [], "label_column": ""}
    by_kind = {kind: [c["name"] for c in dataset.columns if c["kind"] == kind] for kind in ("label", "text")}
    label = next(iter(by_kind["label"]), "")
    values = {"dataset_id": dataset.id, "text_columns": by_kind["text"][:2], "label_column": label}
    return values | ({"metric": TASKS[HubName(dataset.hub_name)].metric.value} if dataset.hub_name else {})


def read_values(data: ImmutableMultiDict[str, Any]) -> Values:
    """The fields of a submitted form or of a query string."""
    known = {*EXPECTED, "include_padding"}
    values: Values = {name: str(value).strip() for name, value in data.items() if name in known}
    if "text_columns" in data:
        values["text_columns"] = [str(column) for column in data.getlist("text_columns") if column]
    return values


def parse(values: Values) -> SweepRequest:
    """The request that the texts mean. Raises InvalidError at the first field that means nothing."""
    given = {name: value for name, value in values.items() if value or name not in OPTIONAL}
    given |= {name: _split(given[name]) for name in LISTS if name in given}
    given["include_padding"] = bool(values.get("include_padding"))
    given["epochs"] = None if given.get("max_steps") else given.get("epochs")
    try:
        return SweepRequest.model_validate(given)
    except ValidationError as error:
        raise _complaint(error, values) from error


def _split(text: str) -> list[str]:
    return [part for part in text.replace("−", "-").replace(",", " ").split() if part]


def _complaint(error: ValidationError, values: Mapping[str, Any]) -> InvalidError:
    place = error.errors()[0]["loc"]
    field = str(place[0]) if place else "epochs"
    came = values.get(field) or "nothing"
    came = ", ".join(came) if isinstance(came, list) else came
    return InvalidError(f"Expected {EXPECTED.get(field, 'another value')}; got {came}.", field)


def _text(default: Any) -> str:
    """A default as it is typed: 3e-05 as 3e-5, a list by commas, nothing for null."""
    if isinstance(default, list):
        return ", ".join(_text(one) for one in default)
    if isinstance(default, float):
        return f"{default:g}".replace("e-0", "e-")
    return str(default) if isinstance(default, str | int) else ""
