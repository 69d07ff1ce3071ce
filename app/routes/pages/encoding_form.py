"""The form that launches an encoding: what it starts with, and what its texts mean."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from starlette.datastructures import ImmutableMultiDict

from app.db.encoding import EncodingConfig
from app.db.models import Encoding
from app.db.options.option import options_of
from app.routes.pages.option_form import meaning, text_of
from app.validation_messages import messages_of
from isoscope.core.errors import FieldError, invalid

Values = dict[str, Any]
"""Texts by field; of ``LISTS`` lists of them."""

FIELDS = EncodingConfig.model_fields
LISTS = ("text_columns", "poolings")
LABELS = {name: option.label for name, option in options_of(EncodingConfig).items()}


def defaults(encoding: Encoding, model: str) -> Values:
    """Return what the form starts with: what was launched before, or the usual settings and the likeliest columns."""
    if encoding.config is not None:
        return _texts(encoding.config.model_dump(mode="json"))
    usual = _texts({name: field.get_default() for name, field in FIELDS.items() if not field.is_required()})
    names = [column.name for column in encoding.columns]
    by_kind = {kind: [c.name for c in encoding.columns if c.kind == kind] for kind in ("label", "text")}
    text = (by_kind["text"] or names)[:1]
    label = next((name for name in by_kind["label"] if name not in text), "")
    return usual | {"model": model, "text_columns": text, "label_column": label}


def read_values(data: ImmutableMultiDict[str, Any]) -> Values:
    """Return the fields of a submitted form, or of a query string that has been one; else nothing."""
    if "model" not in data:
        return {}
    values: Values = {name: str(data[name]).strip() for name in FIELDS if name in data and name not in LISTS}
    return values | {name: [str(one) for one in data.getlist(name) if one] for name in LISTS}


def pairs_of(values: Values) -> list[tuple[str, str]]:
    """Return the fields of a form that ``read_values`` reads as these values."""
    return [(name, one) for name, some in values.items() for one in (some if name in LISTS else [some])]


def parse(values: Values) -> EncodingConfig:
    """Return the configuration that the texts mean. Raises InvalidError with every field that means nothing."""
    given = {name: value if name in LISTS else meaning(FIELDS[name], value) for name, value in values.items()}
    try:
        return EncodingConfig.model_validate(given)
    except ValidationError as error:
        told = messages_of(error.errors(), name=lambda place: LABELS[str(place[0])])
        raise invalid(FieldError(str(place[0]), sentence) for sentence, place in told) from error


def _texts(config: Mapping[str, Any]) -> Values:
    return {name: list(map(str, config[name])) if name in LISTS else text_of(config[name]) for name in config}
