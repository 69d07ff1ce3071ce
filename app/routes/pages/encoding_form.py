"""The form that launches an encoding: what it starts with, and what its texts mean."""

from typing import Any

from pydantic import ValidationError
from starlette.datastructures import ImmutableMultiDict

from app.db.encoding import EncodingConfig
from app.db.models import Encoding
from isoscope.core.errors import InvalidError

Values = dict[str, Any]
"""Texts by field; of ``LISTS`` lists of them."""

LISTS = ("text_columns", "poolings")
OPTIONAL = ("label_column", "layers", "max_rows")
EXPECTED = {
    "model": "a model",
    "text_columns": "one or two text columns",
    "label_column": "a label column, or none",
    "poolings": "at least one of first token, mean and last token",
    "layers": "layer numbers from 0, separated by commas, or nothing for all layers",
    "max_rows": "a whole number from 2, or nothing for all rows",
    "max_length": "a whole number from 8 to 4096",
    "batch_size": "a whole number from 1 to 4096",
    "seed": "a whole number from 0",
}


def defaults(encoding: Encoding, model: str) -> Values:
    """What the form starts with: what was launched before, or else the usual settings and the likeliest columns."""
    if encoding.config is not None:
        return {name: _text(encoding.config[name], name) for name in EXPECTED}
    fields = EncodingConfig.model_fields
    usual = {name: _text(fields[name].get_default(), name) for name in EXPECTED if not fields[name].is_required()}
    names = [column["name"] for column in encoding.columns]
    by_kind = {kind: [c["name"] for c in encoding.columns if c["kind"] == kind] for kind in ("label", "text")}
    text = (by_kind["text"] or names)[:1]
    label = next((name for name in by_kind["label"] if name not in text), "")
    return usual | {"model": model, "text_columns": text, "label_column": label}


def read_values(data: ImmutableMultiDict[str, Any]) -> Values:
    """The fields of a submitted form, or of a query string that has been one; else nothing."""
    if "model" not in data:
        return {}
    values: Values = {name: str(data[name]).strip() for name in EXPECTED if name in data and name not in LISTS}
    return values | {name: [str(one) for one in data.getlist(name) if one] for name in LISTS}


def parse(values: Values) -> EncodingConfig:
    """The configuration that the texts mean. Raises InvalidError at the first field that means nothing."""
    given = {name: value for name, value in values.items() if value or name not in OPTIONAL}
    if values.get("max_rows") == "":  # which means all, and not the default
        given["max_rows"] = None
    if "layers" in given:
        given["layers"] = given["layers"].replace(",", " ").split()
    try:
        return EncodingConfig.model_validate(given)
    except ValidationError as error:
        field = str(error.errors()[0]["loc"][0])
        came = values.get(field) or "nothing"
        came = ", ".join(came) if isinstance(came, list) else came
        raise InvalidError(f"Expected {EXPECTED[field]}; got {came}.", field) from error


def _text(value: Any, name: str) -> Any:
    """A setting as it is typed: a list by commas, nothing for null."""
    if name in LISTS:
        return [str(one) for one in value]
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
