"""What an exported experiment holds of runs that a user's own script logged: no default stands for what it left out."""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from app.archive.records import (
    ByLayer,
    DivergenceRecord,
    ExperimentRecord,
    Measure,
    Name,
    Reason,
    Record,
    RunRecord,
    TrivialRecord,
)
from app.bounded import Count, Number
from app.db.options.regularization import Zeta
from app.db.regularizer_options import Regularizer
from app.db.task import Metric, TaskKind
from app.services.script_config import MAX_FIELDS, MAX_SETTINGS, Scalar, Settings, Word

SETTINGS: TypeAdapter[dict[str, Any]] = TypeAdapter(Settings)


class LoggedConfig(BaseModel):
    """What a user's script said of all runs of an experiment; its own settings stand beside what is named here."""

    model_config = ConfigDict(extra="allow")

    logged: Literal[True]
    model: Name
    task: TaskKind
    metric: Metric

    @model_validator(mode="after")
    def _with_settings(self) -> Self:
        SETTINGS.validate_python(self.model_extra)
        return self


class LoggedExperimentRecord(ExperimentRecord):
    """What the runs of an experiment share that a user's script logged."""

    config: LoggedConfig  # type: ignore[assignment]
    grid: dict[Word, list[Scalar | list[Scalar]]] = Field(max_length=MAX_FIELDS)
    study: None


class LoggedRunConfig(LoggedConfig):
    """What a user's script said of one run."""

    regularizer: Regularizer
    lam: Number
    zeta: Zeta | None = None
    seed: Count


class LoggedResults(Record):
    """What a user's script said of how its run ended."""

    metrics: dict[Metric, Number | None]
    metric_reasons: dict[Metric, Reason]
    n_validation: Count | None = None
    by_layer: dict[Measure, ByLayer]
    by_layer_n: dict[Measure, Count | None]
    further: dict[Word, Scalar] = Field(max_length=MAX_SETTINGS)
    trivial: TrivialRecord | None = None
    constant_prediction: Reason | None = None
    divergence: DivergenceRecord | None = None


class LoggedRunRecord(RunRecord):
    """A run that a user's script logged: no default stands in for what it did not say."""

    config: LoggedRunConfig  # type: ignore[assignment]
    results: LoggedResults | None  # type: ignore[assignment]
