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
    """A field of a form, with its text."""

    name: str
    option: Option
    type: type | None
    text: str = ""
    offered: Mapping[str, str] | None = None
    note: str = ""

    @property
    def words(self) -> Mapping[str, str]:
        """What can be chosen; empty where it is typed or ticked."""
        return self.option.words if self.offered is None else self.offered

    @property
    def flag(self) -> bool:
        """Whether it is a box to tick."""
        return self.type is bool and not self.words

    @property
    def keyboard(self) -> str:
        """The input mode of a phone."""
        return "numeric" if self.type is int else "text"

    @property
    def chosen(self) -> str:
        """What is chosen, in words."""
        empty_words = self.option.none_means or ("no" if self.flag else "none")
        return "yes" if self.flag and self.text else self.words.get(self.text) or self.text or empty_words

    @property
    def summary(self) -> str:
        """The label with what is chosen."""
        return f"{self.option.label}: {self.chosen}"


class Fold(NamedTuple):
    """Controls of a group, which its title folds."""

    group: Group
    controls: list[Control]

    @property
    def slug(self) -> str:
        """Of its element."""
        return "fold-" + self.group.title.lower().replace(" ", "-")

    @property
    def summary(self) -> str:
        """What is chosen inside, in words; a group of one control need not name it again."""
        if [control.option.label for control in self.controls] == [self.group.title]:
            return self.controls[0].chosen
        return " · ".join(control.summary for control in self.controls)


def controls_of(model: type[BaseModel], values: Mapping[str, Any], prefix: str = "") -> dict[str, Control]:
    """Return the controls of a model's options by the names of its fields, with these texts."""
    return {
        name: Control(f"{prefix}{name}", option, _type_of(model.model_fields[name]), _as_text(values.get(name, "")))
        for name, option in options_of(model).items()
    }


def in_folds(controls: Iterable[Control]) -> dict[str, list[Fold]]:
    """Return controls by the section of a form, in it by their groups, of which those without a title are no fold."""
    sections: dict[str, dict[Group, list[Control]]] = {}
    for control in controls:
        group = control.option.group
        sections.setdefault(group.section, {}).setdefault(group, []).append(control)
    return {section: [Fold(*item) for item in groups.items()] for section, groups in sections.items()}


def text_of(value: Any) -> str:
    """Return a value as it is typed: 3e-05 as 3e-5, a list by commas, nothing for null."""
    if isinstance(value, list):
        return ", ".join(text_of(item) for item in value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value).removesuffix(".0").replace("e-0", "e-").replace("e+", "e")
    return str(value) if isinstance(value, str | int) else ""


def meaning(info: FieldInfo, text: str) -> Any:
    """Return what a text means for a field, as JSON would hold it, to be checked by the field's type."""
    if not text and _takes_null(info):
        return None
    if listed := list_type(info.annotation):
        return text if text in listed[1] else split(text)
    return text if _type_of(info) is str else plain(text)


def split(text: str) -> list[str]:
    """Return what commas and blanks part."""
    return plain(text).replace(",", " ").split()


def plain(text: str) -> str:
    """Return a number with a hyphen for its sign."""
    return text.replace("−", "-")


def read_fields(form: ImmutableMultiDict[str, Any], texts: Collection[str], lists: Collection[str]) -> dict[str, Any]:
    """Return the texts, and the lists of texts, of a submitted form or of a query string, by field."""
    values: dict[str, Any] = {name: str(value).strip() for name, value in form.items() if name in texts}
    return values | {name: [str(item) for item in form.getlist(name) if item] for name in lists if name in form}


def field_pairs(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the fields of a form that ``read_fields`` reads as these values."""
    return [(name, text) for name, value in values.items() for text in (value if isinstance(value, list) else [value])]


def labelled(error: IsoscopeError, labels: Mapping[str, str]) -> IsoscopeError:
    """Return an error that calls options by their labels."""
    further = tuple(FieldError(field, with_labels(detail, labels)) for field, detail in error.further)
    return replace(error, message=with_labels(error.message, labels), further=further)


def address_that_shows(path: str, pairs: Sequence[tuple[str, str]]) -> str | None:
    """Return the address of a form that is filled in with these fields and marked; None where it is too long."""
    address = f"{path}?{urlencode([*pairs, (CHECKED, 'true')])}"
    return address if len(address) <= MAX_ADDRESS else None


def _type_of(info: FieldInfo) -> type | None:
    return single_type(info.annotation)


def _takes_null(info: FieldInfo) -> bool:
    return type(None) in getattr(info.annotation, "__args__", ())


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""
