"""The help of one field, and that of all fields of a model."""

from collections.abc import Mapping
from typing import NamedTuple

from pydantic import BaseModel


class Help(NamedTuple):
    """A sentence that is always shown, and what is behind it: plain text, with S_X and x^{3/2} as in the catalogue."""

    text: str = ""
    formula: str = ""
    more: str = ""
    source: str = ""
    measures: tuple[str, ...] = ()
    """Slugs of the catalogue."""

    @property
    def short(self) -> bool:
        """Whether the sentence is all."""
        return self[1:] == Help()[1:]


def described(model: type[BaseModel], behind: Mapping[str, Help]) -> dict[str, Help]:
    """The help of every field of a model that is described: its description, and what is behind that."""
    return {
        name: behind.get(name, Help())._replace(text=field.description)
        for name, field in model.model_fields.items()
        if field.description
    }
