"""Forms of options: a control for each, by its type and its words, and what its text means."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from urllib.parse import urlencode

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from starlette.datastructures import ImmutableMultiDict

from app.core.validation_messages import with_labels
from app.db.options.option import Group, Option, list_type, options_of, single_type
from isoscope.core.errors import FieldError, IsoscopeError

CHECKED = "checked"
"""In the address of a form that was sent and is wrong: everything is marked, and the page begins at the first."""
MAX_ADDRESS = 6000
"""Characters that every browser, proxy and server takes in an address."""


@dataclass(frozen=True)
class Control:
    """A form field with its current text."""

    name: str
    option: Option
    type: type | None
    text: str = ""
    offered: Mapping[str, str] | None = None
    note: str = ""

    @property
    def words(self) -> Mapping[str, str]:
        return self.option.words if self.offered is None else self.offered

    @property
    def flag(self) -> bool:
        return self.type is bool and not self.words

    @property
    def keyboard(self) -> str:
        return "numeric" if self.type is int else "text"

    @property
    def chosen(self) -> str:
        empty_words = self.option.none_means or ("no" if self.flag else "none")
        return "yes" if self.flag and self.text else self.words.get(self.text) or self.text or empty_words


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
            return self.controls[0].chosen
        return " · ".join(f"{control.option.label}: {control.chosen}" for control in self.controls)


def controls_of(model: type[BaseModel], values: Mapping[str, Any], prefix: str = "") -> dict[str, Control]:
    return {
        name: Control(f"{prefix}{name}", option, single_type(model.model_fields[name].annotation), text)
        for name, option in options_of(model).items()
        for value in [values.get(name)]
        for text in [value if isinstance(value, str) else ""]
    }


def in_folds(controls: Iterable[Control]) -> dict[str, list[Fold]]:
    sections: dict[str, dict[Group, list[Control]]] = {}
    for control in controls:
        group = control.option.group
        sections.setdefault(group.section, {}).setdefault(group, []).append(control)
    return {section: [Fold(*item) for item in groups.items()] for section, groups in sections.items()}


def text_of(value: Any) -> str:
    """Return a value as typed: 3e-05 as 3e-5, a list with commas, nothing for null."""
    if isinstance(value, list):
        return ", ".join(text_of(item) for item in value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value).removesuffix(".0").replace("e-0", "e-").replace("e+", "e")
    return str(value) if isinstance(value, str | int) else ""


def meaning(info: FieldInfo, text: str) -> Any:
    """Return the JSON value of a text, to be checked by the field's type."""
    if not text and type(None) in getattr(info.annotation, "__args__", ()):
        return None
    if item_types := list_type(info.annotation):
        return text if text in item_types[1] else split(text)
    return text if single_type(info.annotation) is str else plain(text)


def split(text: str) -> list[str]:
    return plain(text).replace(",", " ").split()


def plain(text: str) -> str:
    return text.replace("−", "-")


def read_fields(form: ImmutableMultiDict[str, Any], texts: Collection[str], lists: Collection[str]) -> dict[str, Any]:
    """Return the texts and lists of texts of a submitted form or query string."""
    values: dict[str, Any] = {name: str(value).strip() for name, value in form.items() if name in texts}
    return values | {name: [str(item) for item in form.getlist(name) if item] for name in lists if name in form}


def field_pairs(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return form fields that ``read_fields`` reads back as these values."""
    return [(name, text) for name, value in values.items() for text in (value if isinstance(value, list) else [value])]


def labelled(error: IsoscopeError, labels: Mapping[str, str]) -> IsoscopeError:
    further = tuple(FieldError(field, with_labels(detail, labels)) for field, detail in error.further)
    return replace(error, message=with_labels(error.message, labels), further=further)


def address_that_shows(path: str, pairs: Sequence[tuple[str, str]]) -> str | None:
    """Return the URL of the form filled in with these fields; None if it is too long."""
    address = f"{path}?{urlencode([*pairs, (CHECKED, 'true')])}"
    return address if len(address) <= MAX_ADDRESS else None
