"""What an exported experiment holds of runs that a user's own script logged: no default stands for what it left out."""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from app.archive.records import ExperimentRecord, Name, RunRecord
from app.db.options.regularization import Zeta
from app.db.regularizer_options import Regularizer
from app.db.run_results import LayerValues, Learning, Measure, RunResults
from app.numbers import Count, Number
from app.services.script_config import MAX_FIELDS, MAX_SETTINGS, Scalar, Settings, Word
from isoscope.core.task import Metric, TaskKind

SAID = {*Learning.model_fields, "metrics", "metric_reasons", "n_validation", "by_layer", "by_layer_n", "further"}
"""Of results, what a script says, or what is found out of what it logged."""
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


class LoggedResults(RunResults):
    """What a user's script said of how its run ended, and nothing that only a worker says."""

    model_config = ConfigDict(extra="forbid")

    by_layer: dict[Measure, LayerValues]
    by_layer_n: dict[Measure, Count | None]
    further: dict[Word, Scalar] = Field(max_length=MAX_SETTINGS)

    @model_validator(mode="after")
    def _of_a_script(self) -> Self:
        if unknown := self.model_fields_set - SAID:
            raise ValueError(f"expected what a script says of its run, got {', '.join(sorted(unknown))}")
        return self


class LoggedRunRecord(RunRecord):
    """A run that a user's script logged: no default stands in for what it did not say."""

    NEEDED = ("metric_reasons", "by_layer", "by_layer_n", "further")

    config: LoggedRunConfig  # type: ignore[assignment]
    results: LoggedResults | None
