"""What an exported experiment holds of runs that a user's own script logged: no default stands for what it left out."""

from typing import Self

from pydantic import ConfigDict, Field, model_validator

from app.db.reported_config import MAX_SETTINGS, ReportedConfig, ReportedRunConfig, Scalar, Word
from app.db.run_results import LayerValues, Learning, Measure, RunResults
from app.db.types import Count
from app.results.archive.records import ExperimentRecord, RunRecord
from app.results.logged_config import MAX_FIELDS

SAID = {*Learning.model_fields, "metrics", "metric_reasons", "n_validation", "by_layer", "by_layer_n", "further"}
"""Of results, what a script says, or what is found out of what it logged."""


class LoggedExperimentRecord(ExperimentRecord):
    """What the runs of an experiment share that a user's script logged."""

    config: ReportedConfig  # type: ignore[assignment]
    grid: dict[Word, list[Scalar | list[Scalar]]] = Field(max_length=MAX_FIELDS)
    study: None


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

    config: ReportedRunConfig  # type: ignore[assignment]
    results: LoggedResults | None
