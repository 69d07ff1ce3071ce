"""The record of an option: its label, help and scope in forms, YAML, errors, tables and docs."""

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

from isoscope.core.task import TaskKind
from isotropy.catalog import Regularizer


@dataclass(frozen=True, kw_only=True, eq=False)
class HelpFold:
    """Help in a fold, as plain text; S_X and x^{3/2} are set as formulas."""

    formula: str = ""
    details: str = ""
    source: str = ""
    # Slugs of related measures in the catalog.
    measures: tuple[str, ...] = ()

    @property
    def is_text_only(self) -> bool:
        return not (self.formula or self.details or self.source or self.measures)


@dataclass(frozen=True, eq=False)
class Help(HelpFold):
    """Help of a field: a sentence that is always shown, and its fold."""

    text: str = ""

    def with_text(self, text: str) -> "Help":
        return replace(self, text=text)


class Group(NamedTuple):
    """Options under one heading in forms and on run pages; in a fold if the group has a title."""

    section: str
    title: str = ""


DATA = Group("Data and model")
TASK = Group("Data and model", "Task")
NAME = Group("Data and model", "Name")
SWEPT = Group("Regularizers")
VECTORS = Group("Regularizers", "Layers and vectors")
SHRINKAGE = Group("Regularizers", "Shrinkage covariance")
BARCODE = Group("Regularizers", "Barcode")
FIXED = Group("Regularizers", "Extra penalties on every run")
TRAINING = Group("Training")
OPTIMIZER = Group("Training", "Optimizer and schedule")
MACHINE = Group("Training", "Rows and machine")
CHECKPOINTS = Group("Training", "Checkpoint and early stopping")
MEASURING = Group("Training", "Measuring and keeping")
GROUPS = (
    DATA, TASK, NAME, SWEPT, VECTORS, SHRINKAGE, BARCODE, FIXED, TRAINING, OPTIMIZER, MACHINE, CHECKPOINTS, MEASURING,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Option(HelpFold):
    """Label, help and scope of an option, in the annotation of its field."""

    # In forms, column heads, errors and docs.
    label: str
    # Its effect, in a sentence.
    text: str
    group: Group = TRAINING
    # Noun of its values in the run count of a sweep: 2 batch sizes.
    plural: str = field(default="", kw_only=True)
    # Unit of its number, such as row. An irregular plural follows a bar: process|processes.
    unit: str = field(default="", kw_only=True)
    # Names of its values, in the order of choices. Empty: the user types the value.
    words: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    # Meaning of null. Empty: null means that the option is not used.
    none_means: str = field(default="", kw_only=True)
    # Whether runs of one experiment may differ in it.
    in_grid: bool = field(default=True, kw_only=True)
    # Regularizers that read it. None: every run, plain training included.
    applies_to: frozenset[Regularizer] | None = field(default=None, kw_only=True)
    # Whether those regularizers read it only if they see tokens.
    needs_tokens: bool = field(default=False, kw_only=True)
    # Tasks that read it.
    tasks: frozenset[TaskKind] = field(default=frozenset(TaskKind), kw_only=True)
    # Whether the option has an effect, given the others of a configuration.
    needs: Callable[[Mapping[str, Any]], bool] | None = field(default=None, kw_only=True)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(schema) | {"description": self.text}


def lowercase_label(label: str) -> str:
    """Return a label for use inside a sentence: batch size, but λ and AdamW unchanged."""
    return label[:1].lower() + label[1:] if label[1:2].islower() else label


def _title(name: str, info: FieldInfo | Any) -> str:
    option = find_option(info)
    return option.label if option else name.replace("_", " ").capitalize()


class Options(BaseModel):
    """Base class of models whose fields are options."""

    model_config = ConfigDict(extra="forbid", frozen=True, field_title_generator=_title)


def find_option(info: FieldInfo) -> Option | None:
    return next((entry for entry in info.metadata if isinstance(entry, Option)), None)


@cache
def collect_options(model: type[BaseModel]) -> Mapping[str, Option]:
    """Return the options of a model by field name, in the order of their groups."""
    options = {name: option for name, info in model.model_fields.items() if (option := find_option(info)) is not None}
    positions = {group: position for position, group in enumerate(GROUPS)}
    return dict(sorted(options.items(), key=lambda item: positions.get(item[1].group, len(positions))))


def non_null_types(annotation: Any) -> list[Any]:
    """Return the types that an annotation allows, without null and without metadata."""
    if get_origin(annotation) is Annotated:
        return non_null_types(get_args(annotation)[0])
    if get_origin(annotation) in (UnionType, Union):
        return [type_ for part in get_args(annotation) for type_ in non_null_types(part)]
    return [] if annotation is NoneType else [annotation]


def single_type(annotation: Any) -> type | None:
    """Return the type of a field that holds one kind of value, or null; None for a list or several types."""
    types = non_null_types(annotation)
    return types[0] if len(types) == 1 and isinstance(types[0], type) else None


def list_type(annotation: Any) -> tuple[Any, frozenset[str]] | None:
    """Return the item type of a list and the words accepted in its place; None if it is not a list."""
    types = non_null_types(annotation)
    list_types = [type_ for type_ in types if get_origin(type_) is list]
    words = {word.value for type_ in types if isinstance(type_, type) and issubclass(type_, StrEnum) for word in type_}
    return (get_args(list_types[0])[0], frozenset(words)) if list_types else None
