"""The record of one option: everything that forms, files, errors, tables and documents say of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from app.db.regularizer_options import Regularizer
from isoscope.core.task import TaskKind


@dataclass(frozen=True, kw_only=True, eq=False)
class Behind:
    """What is folded behind a sentence: plain text, with S_X and x^{3/2} as formulas."""

    formula: str = ""
    more: str = ""
    source: str = ""
    measures: tuple[str, ...] = ()
    """Slugs of the catalogue."""

    @property
    def short(self) -> bool:
        """Whether nothing is."""
        return not (self.formula or self.more or self.source or self.measures)


@dataclass(frozen=True, eq=False)
class Help(Behind):
    """A sentence that is always shown, and what is behind it."""

    text: str = ""

    def saying(self, text: str) -> "Help":
        """Return the same help with another sentence."""
        return replace(self, text=text)


class Group(NamedTuple):
    """Options that stand together under a heading, in forms and on runs' pages; in a fold if the group has a title."""

    section: str
    title: str = ""


DATA = Group("Data and model")
TASK = Group("Data and model", "Task")
SWEPT = Group("Regularizers")
SEEN = Group("Regularizers", "Layers and vectors")
SHRINKAGE = Group("Regularizers", "Shrinkage covariance")
BARCODE = Group("Regularizers", "Barcode")
FIXED = Group("Regularizers", "Extra penalties on every run")
TRAINING = Group("Training")
OPTIMIZER = Group("Training", "Optimizer and schedule")
MACHINE = Group("Training", "Rows and machine")
CHECKPOINTS = Group("Training", "Checkpoint and early stopping")
MEASURING = Group("Measuring and keeping")
GROUPS = (
    DATA, TASK, SWEPT, SEEN, SHRINKAGE, BARCODE, FIXED, TRAINING, OPTIMIZER, MACHINE, CHECKPOINTS, MEASURING,
)  # fmt: skip
"""In the order in which forms and runs' pages show them."""


@dataclass(frozen=True, eq=False)
class Option(Behind):
    """An option in words. It stands in the annotation of a field, beside the bounds of its type."""

    label: str
    """Its one name, at the head of a field, a column or a row."""
    text: str
    """What it does, in a sentence."""
    group: Group = TRAINING
    several: str = field(default="", kw_only=True)
    """What several values of it are called in the count of a sweep's runs: 2 batch sizes."""
    unit: str = field(default="", kw_only=True)
    """Of its number: row, or one and many, as process|processes."""
    words: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    """What its values are called, in the order in which they are offered; without them it is typed."""
    none_means: str = field(default="", kw_only=True)
    """What a value of null means; without it that the option is not used."""
    in_grid: bool = field(default=True, kw_only=True)
    """Whether the runs of one experiment may differ in it and still be compared."""
    slows: bool = field(default=True, kw_only=True)
    """Whether a step of training may take longer or shorter with another value."""
    applies_to: frozenset[Regularizer] | None = field(default=None, kw_only=True)
    """The regularizers that read it; None for all runs, plain training too."""
    of_tokens: bool = field(default=False, kw_only=True)
    """Read by these only where they see tokens."""
    tasks: frozenset[TaskKind] = field(default=frozenset(TaskKind), kw_only=True)
    """The tasks that read it."""
    needs: Callable[[Mapping[str, Any]], bool] | None = field(default=None, kw_only=True)
    """Whether the other options of a configuration leave it a meaning."""

    @property
    def noun(self) -> str:
        """What several values are called."""
        return self.several or f"{lowered(self.label)} values"

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Give the field its sentence in the API's description."""
        return handler(schema) | {"description": self.text}


def lowered(label: str) -> str:
    """A label inside a sentence: batch size, but λ and AdamW as they are."""
    return label[:1].lower() + label[1:] if label[1:2].islower() else label


def _title(name: str, info: FieldInfo | Any) -> str:
    found = option_in(info)
    return found.label if found else name.replace("_", " ").capitalize()


class Options(BaseModel):
    """Base of models whose fields are options."""

    model_config = ConfigDict(extra="forbid", frozen=True, field_title_generator=_title)


def option_in(info: FieldInfo) -> Option | None:
    """The record of a field, if it has one."""
    return next((one for one in info.metadata if isinstance(one, Option)), None)


@cache
def options_of(model: type[BaseModel]) -> Mapping[str, Option]:
    """The options of a model by the names of its fields, group by group, in their order."""
    found = {name: one for name, info in model.model_fields.items() if (one := option_in(info)) is not None}
    places = {group: place for place, group in enumerate(GROUPS)}
    return dict(sorted(found.items(), key=lambda item: places.get(item[1].group, len(places))))


def alternatives(annotation: Any) -> list[Any]:
    """The types that a value may be of, without null and without the metadata of each."""
    if get_origin(annotation) is Annotated:
        return alternatives(get_args(annotation)[0])
    if get_origin(annotation) in (UnionType, Union):
        return [one for part in get_args(annotation) for one in alternatives(part)]
    return [] if annotation is NoneType else [annotation]


def single_type(annotation: Any) -> type | None:
    """The type of a value besides null; None where it may be of several, or a list."""
    possible = alternatives(annotation)
    return possible[0] if len(possible) == 1 and isinstance(possible[0], type) else None


def list_type(annotation: Any) -> tuple[Any, frozenset[str]] | None:
    """The items' type of a list, and the words that may stand in its place; None where a value is no list."""
    possible = alternatives(annotation)
    lists = [one for one in possible if get_origin(one) is list]
    words = {word.value for one in possible if isinstance(one, type) and issubclass(one, StrEnum) for word in one}
    return (get_args(lists[0])[0], frozenset(words)) if lists else None
