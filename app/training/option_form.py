"""Form controls of options, and conversion between option values and form texts."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from urllib.parse import urlencode

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from starlette.datastructures import ImmutableMultiDict

from app.core.validation_messages import with_labels
from app.db.options.option import Group, Option, collect_options, list_type, single_type
from isoscope.core.errors import FieldError, IsoscopeError

CHECKED = "checked"
"""URL parameter of a form that failed validation. The page marks every error and scrolls to the first."""
MAX_ADDRESS = 6000
"""Maximum characters of a URL, which every browser, proxy and server accepts."""


@dataclass(frozen=True)
class Control:
    """A form field with its current text."""

    name: str
    option: Option
    type: type | None
    text: str = ""
    offered_words: Mapping[str, str] | None = None
    """Labels by value that replace the option's own, if not None."""
    note: str = ""

    @property
    def words(self) -> Mapping[str, str]:
        return self.option.words if self.offered_words is None else self.offered_words

    @property
    def is_flag(self) -> bool:
        return self.type is bool and not self.words

    @property
    def keyboard(self) -> str:
        return "numeric" if self.type is int else "text"

    @property
    def value_text(self) -> str:
        if self.is_flag and self.text:
            return "yes"
        return self.words.get(self.text) or self.text or self.option.none_means or ("no" if self.is_flag else "none")


class Fold(NamedTuple):
    """A collapsible group of controls."""

    group: Group
    controls: list[Control]

    @property
    def slug(self) -> str:
        return "fold-" + self.group.title.lower().replace(" ", "-")

    @property
    def summary(self) -> str:
        if [control.option.label for control in self.controls] == [self.group.title]:
            return self.controls[0].value_text
        return " · ".join(f"{control.option.label}: {control.value_text}" for control in self.controls)


def build_controls(model: type[BaseModel], values: Mapping[str, Any], prefix: str = "") -> dict[str, Control]:
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    return {
        name: Control(f"{prefix}{name}", option, single_type(model.model_fields[name].annotation), texts.get(name, ""))
        for name, option in collect_options(model).items()
    }


def folds_by_section(controls: Iterable[Control]) -> dict[str, list[Fold]]:
    sections: dict[str, dict[Group, list[Control]]] = {}
    for control in controls:
        group = control.option.group
        sections.setdefault(group.section, {}).setdefault(group, []).append(control)
    return {section: [Fold(*item) for item in groups.items()] for section, groups in sections.items()}


def to_text(value: Any) -> str:
    """Return a value as a user types it: 3e-05 as 3e-5, a list with commas, an empty text for null."""
    if isinstance(value, list):
        return ", ".join(to_text(item) for item in value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value).removesuffix(".0").replace("e-0", "e-").replace("e+", "e")
    return str(value) if isinstance(value, str | int) else ""


def to_json_value(field: FieldInfo, text: str) -> Any:
    """Return the JSON value of a form text, not yet validated."""
    if not text and type(None) in getattr(field.annotation, "__args__", ()):
        return None
    if (item_type_and_words := list_type(field.annotation)) is not None:
        _, words = item_type_and_words
        return text if text in words else split_values(text)
    return text if single_type(field.annotation) is str else with_ascii_minus(text)


def split_values(text: str) -> list[str]:
    return with_ascii_minus(text).replace(",", " ").split()


def with_ascii_minus(text: str) -> str:
    return text.replace("−", "-")


def read_fields(
    form: ImmutableMultiDict[str, Any], text_names: Collection[str], list_names: Collection[str]
) -> dict[str, Any]:
    """Return the texts and lists of texts of a submitted form or query string."""
    values: dict[str, Any] = {name: str(value).strip() for name, value in form.items() if name in text_names}
    return values | {name: [str(item) for item in form.getlist(name) if item] for name in list_names if name in form}


def field_pairs(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return form fields that ``read_fields`` reads back as these values."""
    return [(name, text) for name, value in values.items() for text in (value if isinstance(value, list) else [value])]


def label_fields(error: IsoscopeError, labels: Mapping[str, str]) -> IsoscopeError:
    """Return an error whose messages call fields by their labels."""
    other_errors = tuple(FieldError(field, with_labels(detail, labels)) for field, detail in error.other_errors)
    return replace(error, message=with_labels(error.message, labels), other_errors=other_errors)


def form_address(path: str, pairs: Sequence[tuple[str, str]]) -> str | None:
    """Return the URL of the form filled in with these fields; None if it is too long."""
    address = f"{path}?{urlencode([*pairs, (CHECKED, 'true')])}"
    return address if len(address) <= MAX_ADDRESS else None
