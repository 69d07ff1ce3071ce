"""The configuration of an experiment and of a run."""

from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, ClassVar, Self, get_args

from pydantic import Field, FiniteFloat, model_validator
from pydantic.fields import FieldInfo

from app.db.options.measuring import MeasuringOptions, evaluates_during_training
from app.db.options.option import DATA, SWEPT, Option, collect_options
from app.db.options.regularization import REGULARIZER_NAMES, Zeta, loss_weights, regularizers_with
from isoscope.core.task import TaskKind
from isotropy.catalog import REGULARIZERS, Regularizer, TokenPooling

Seed = Annotated[int, Field(ge=0, lt=2**31)]


def replace_booleans(document: Any, fields: Mapping[str, FieldInfo]) -> Any:
    """Replace booleans in numeric fields by the words true and false, because pydantic would read them as 1 and 0."""
    if not isinstance(document, Mapping):
        return document
    numeric_names = {name for name, field in fields.items() if _is_numeric(field.annotation)}
    return {name: _booleans_to_words(value) if name in numeric_names else value for name, value in document.items()}


def _is_numeric(annotation: Any) -> bool:
    """Return whether a type is a number, or has a number among its alternatives or items."""
    return annotation in (int, float) or any(map(_is_numeric, get_args(annotation)))


def _booleans_to_words(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return [_booleans_to_words(item) for item in value]
    return {name: _booleans_to_words(item) for name, item in value.items()} if isinstance(value, dict) else value


class TrainingOptions(MeasuringOptions):
    """Configuration that all runs of an experiment share, as the user entered it. Defaults follow the papers."""

    @model_validator(mode="before")
    @classmethod
    def _reject_booleans_as_numbers(cls, values: Any) -> Any:
        return replace_booleans(values, cls.model_fields)


class TrainingConfig(TrainingOptions):
    """Configuration that all runs of an experiment share, with the classes read from its data set."""

    logged: ClassVar[bool] = False

    label_names: Annotated[
        list[str],
        Option("Classes", "Classes in order. Empty unless the task is classification.", DATA, in_grid=False),
    ]

    @model_validator(mode="after")
    def _check_classes(self) -> Self:
        if (self.task is TaskKind.CLASSIFICATION) != (len(self.label_names) >= 2):
            raise ValueError(f"expected two classes or more for classification and none else; got {self.label_names}")
        return self

    @property
    def stated_values(self) -> Mapping[str, Any]:
        """Return all fields by name: a launched configuration states even its defaults."""
        return self.__dict__

    def has_value(self, name: str) -> bool:
        return name in self.__dict__

    def value(self, name: str, default: Any = None) -> Any:
        return self.__dict__.get(name, default)

    def dump(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


class RunConfig(TrainingConfig):
    """Configuration of one run: what all runs share, and its own regularizer, lambda, zeta and seed."""

    regularizer: Annotated[
        Regularizer,
        Option("Regularizer", "Penalty added to the task’s loss.", SWEPT, words=REGULARIZER_NAMES),
    ]
    lam: Annotated[FiniteFloat, Option("λ", "Weight of the regularizer.", SWEPT)]
    zeta: Annotated[
        Zeta,
        Option("ζ", "Weight of the shrinkage covariance.", SWEPT, plural="ζ", applies_to=regularizers_with("zeta")),
    ] = 0.2
    seed: Annotated[Seed, Option("Seed", "Seed of new weights, dropout and the order of rows.", SWEPT)]

    @property
    def penalty_weights(self) -> dict[Regularizer, float]:
        return loss_weights(self.regularizer, self.lam, self.fixed_regularizers)

    @property
    def selects_during_training(self) -> bool:
        return evaluates_during_training({"checkpoint": self.checkpoint, "patience": self.patience})

    def uses_option(self, field: str) -> bool:
        return option_applies(field, self.penalty_weights, self.points)


# Options by name, in the order of groups.
OPTIONS = collect_options(RunConfig)
TRAINING_OPTIONS = collect_options(TrainingOptions)


def regularizers_reading(field: str) -> Collection[Regularizer] | None:
    """Return the regularizers that read an option; None if every run reads it, or if it is no option."""
    return OPTIONS[field].applies_to if field in OPTIONS else None


def option_applies(field: str, regularizers: Iterable[Regularizer], points: TokenPooling | None) -> bool:
    """Return whether an option has an effect with these regularizers.

    If ``points`` is None, each regularizer uses its default points.
    """
    readers = regularizers_reading(field)
    if readers is None:
        return True
    penalties = [REGULARIZERS[regularizer] for regularizer in regularizers if regularizer in readers]
    if OPTIONS[field].needs_tokens:
        default_points = (penalty.default_states[1] for penalty in penalties if penalty.default_states is not None)
        return any((points or default) is TokenPooling.TOKENS for default in default_points)
    return bool(penalties)
