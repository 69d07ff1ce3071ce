"""The configuration that a user's script reported. Fields that are Isoscope's options are validated."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError, model_validator

from app.db.config import RunConfig, TrainingConfig, TrainingOptions
from app.db.options.measuring import Checkpoint, SelectionRows, evaluates_during_training
from app.db.options.regularization import Bars, Zeta, loss_weights
from app.db.run_results import ResultsPart
from app.db.types import Count, Number, Typed, stored_adapter
from isoscope.core.formatting import one_line
from isoscope.core.task import Metric, TaskKind
from isoscope.plain import require_bounded
from isotropy.catalog import Regularizer, TokenPooling

UNKNOWN = "unknown"
MAX_SETTINGS = 100
# Cached configurations, of some kilobytes each: twice the runs of a figure.
MAX_CACHED_CONFIGS = 2048

TextLine = Annotated[str, Field(max_length=1000), AfterValidator(one_line)]
SettingName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
# ``require_bounded`` checks the whole union: an integer beyond the bounds of ``int`` alone would be read as a float.
Scalar = Annotated[bool | int | FiniteFloat | TextLine, AfterValidator(require_bounded)]

COORDINATES = ("model", "task", "metric", "regularizer", "lam", "zeta", "seed")
RESERVED_NAMES = frozenset({*COORDINATES, "experiment", "dataset", "logged"})
# Any: each option has its own type. The name is in the annotation only because Annotated needs some metadata.
OPTION_TYPES: Mapping[str, TypeAdapter[Any]] = {
    name: TypeAdapter(Annotated[field.annotation, name, *field.metadata])  # type: ignore[arg-type]
    for name, field in TrainingOptions.model_fields.items()
    if name not in RESERVED_NAMES
}


def _check_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return a script's settings. Raise ValueError for a reserved name or an invalid value of one of our options."""
    for name, value in settings.items():
        if name in RESERVED_NAMES:
            raise ValueError(f"expected {name} outside the settings, not among them")
        if value == UNKNOWN:
            raise ValueError(f"expected a {name} other than {UNKNOWN!r}, which means unreported: leave it out")
        if name in OPTION_TYPES:
            try:
                OPTION_TYPES[name].validate_python(value)
            except ValidationError as error:
                cause = error.errors()[0]["msg"]
                raise ValueError(
                    f"{name} is one of Isoscope's settings and has its meaning: {cause}, got {value!r}. Correct it, or "
                    "give your own setting another name"
                ) from error
    return settings


Settings = Annotated[
    dict[SettingName, Scalar | Annotated[list[Scalar], Field(max_length=1000)]],
    Field(max_length=MAX_SETTINGS),
    AfterValidator(_check_settings),
]
_SETTINGS: TypeAdapter[dict[str, Any]] = TypeAdapter(Settings)


class ReportedConfig(ResultsPart):
    """The configuration that a script reported for all runs of an experiment.

    Fields that it did not report are None, not Isoscope's defaults. The script's own settings are extra fields.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    logged: Literal[True]
    model: Annotated[str, Field(min_length=1, max_length=200)]
    task: TaskKind
    metric: Metric
    points: TokenPooling | None = None
    entropy_bars: Bars | None = None
    entropy_cluster_weight: float | None = None
    checkpoint: Checkpoint | None = None
    selection: SelectionRows | None = None
    patience: int | None = None
    evaluation_zeta: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _check_own_settings(cls, document: Any) -> Any:
        if isinstance(document, Mapping):
            _SETTINGS.validate_python({name: value for name, value in document.items() if name not in RESERVED_NAMES})
        return document

    @property
    def fixed_regularizers(self) -> Mapping[Regularizer, float]:
        return {}

    @property
    def label_names(self) -> list[str]:
        names = self.value("label_names")
        return list(map(str, names)) if isinstance(names, list) else []

    @property
    def selects_during_training(self) -> bool:
        return evaluates_during_training({"checkpoint": self.checkpoint, "patience": self.patience})

    @property
    def stated_values(self) -> Mapping[str, Any]:
        """Return the reported values by name."""
        return {name: self.value(name) for name in self.model_fields_set}

    def has_value(self, name: str) -> bool:
        return name in self.model_fields_set

    def value(self, name: str, default: Any = None) -> Any:
        if name not in self.model_fields_set:
            return default
        return self.__dict__[name] if name in self.__dict__ else (self.model_extra or {})[name]


class ReportedRunConfig(ReportedConfig):
    """A script's configuration of one run."""

    regularizer: Regularizer
    lam: Number
    zeta: Zeta | None = None
    seed: Count

    @property
    def penalty_weights(self) -> dict[Regularizer, float]:
        return loss_weights(self.regularizer, self.lam, {})


AnyConfig = TrainingConfig | ReportedConfig
AnyRunConfig = RunConfig | ReportedRunConfig


@lru_cache(maxsize=MAX_CACHED_CONFIGS)
def _parse_cached(config_type: type[TrainingConfig] | type[ReportedConfig], text: str) -> AnyConfig:
    """Parse a configuration. Pages read the same text again and again, and can share the model because it is frozen."""
    config: AnyConfig = stored_adapter(config_type).validate_json(text)
    return config


class ConfigColumn(Typed[AnyConfig]):
    """A column of configurations: launched ones, and those that scripts reported."""

    cache_ok = True

    def __init__(self, launched: type[TrainingConfig], reported: type[ReportedConfig]) -> None:
        super().__init__(launched)
        self.launched_type = launched
        self.reported_type = reported

    def check(self, value: Any) -> AnyConfig:
        if isinstance(value, self.launched_type | self.reported_type):
            return value
        return self._config_type(value).model_validate(value)

    def read(self, value: Any) -> AnyConfig:
        config: AnyConfig = stored_adapter(self._config_type(value)).validate_python(value)
        return config

    def read_text(self, text: str) -> AnyConfig:
        """Read a configuration. A quoted key in the raw text tells its type: quotes inside strings are escaped."""
        return _parse_cached(self.reported_type if '"logged":' in text else self.launched_type, text)

    def _config_type(self, value: Any) -> type[TrainingConfig] | type[ReportedConfig]:
        return self.reported_type if isinstance(value, Mapping) and "logged" in value else self.launched_type
