"""Records of an exported experiment by member, as strict as untrusted input requires."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    ConfigDict,
    Field,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)

from app.db.config import RunConfig, TrainingConfig
from app.db.hub_tasks import HubName
from app.db.models import (
    MAX_TAG_CHARACTERS,
    MAX_TAGS,
    AttemptOutcome,
    DatasetOrigin,
    ExperimentOrigin,
    FailureCause,
    RunStatus,
    Split,
)
from app.db.options.regularization import Zeta
from app.db.reported_config import MAX_SETTINGS, ReportedConfig, ReportedRunConfig, Scalar, SettingName
from app.db.run_results import MAX_LAYERS, LayerValues, Learning, Measure, Reason, RunResults
from app.db.study import Search
from app.db.types import Count, Number
from app.results.logged_config import MAX_FIELDS
from app.training.grid_expansion import Grid
from isoscope.core.formatting import one_line
from isoscope.files.columns import Column
from isoscope.files.division import Division
from isoscope.files.strict import Strict
from isoscope.files.text import Quoting
from isotropy.catalog import Regularizer

MAX_ROWS_PER_RECORD = 5000
"""Maximum number of predictions in one record, which is one line of an archive."""
FIRST_YEAR, END_YEAR = 2000, 2200


def _require_plausible_time(moment: datetime) -> datetime:
    if not FIRST_YEAR <= moment.year < END_YEAR:
        raise ValueError(f"expected a time from {FIRST_YEAR} to {END_YEAR}, got one of the year {moment.year}")
    return moment


def _require_one_line(tag: str) -> str:
    if tag != one_line(tag):
        raise ValueError("expected a tag in one line, without blanks around it")
    return tag


def _validate_in_order(grid: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """Validate a grid and return its fields in the given order, which pydantic does not keep."""
    valid_grid = validate(grid)
    return {name: valid_grid[name] for name in grid}


Id = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
SplitName = Annotated[str, Field(pattern="^(train|validation|test)$")]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Filename = Annotated[str, Field(min_length=1, max_length=255)]
Tag = Annotated[
    str, Field(min_length=1, max_length=MAX_TAG_CHARACTERS, pattern=r"^[^,]*$"), AfterValidator(_require_one_line)
]
Text = Annotated[str, Field(max_length=1_000_000)]
Answer = Annotated[str, Field(max_length=1_000_000)]
Moment = Annotated[AwareDatetime, AfterValidator(_require_plausible_time)]
LayerNumbers = Annotated[list[Number | None], Field(min_length=1, max_length=MAX_LAYERS)]
GridInOrder = Annotated[Grid, WrapValidator(_validate_in_order)]


class Member(Strict):
    """A member of the archive in its manifest."""

    sha256: Sha256
    bytes: int = Field(ge=0)


class Manifest(Strict):
    """Format, version, time and members of an archive."""

    format: int
    isoscope: str = Field(max_length=40)
    exported_at: Moment
    members: dict[str, Member]


class DatasetRecord(Strict):
    """The data set of an experiment, without its rows."""

    name: Name
    origin: DatasetOrigin
    hub_name: HubName | None
    train_sha256: Sha256 | None
    validation_sha256: Sha256 | None
    test_sha256: Sha256 | None = None
    train_filename: Filename | None
    validation_filename: Filename | None
    test_filename: Filename | None = None
    n_train: Count | None
    n_validation: Count | None
    n_test: Count | None = None
    division: Division | None = None
    columns: list[Column] = Field(max_length=10_000)
    quoting: dict[SplitName, Quoting] | None = None


class ExperimentRecord(Strict):
    """An experiment without its runs."""

    id: Id
    name: Name
    origin: ExperimentOrigin
    created_at: Moment
    config: TrainingConfig
    grid: GridInOrder
    study: Search | None
    dataset: DatasetRecord


class AttemptRecord(Strict):
    """One process that worked on a run."""

    number: Count
    worker: str = Field(max_length=100)
    started_at: Moment
    ended_at: Moment | None
    seconds: Number = Field(ge=0)
    outcome: AttemptOutcome | None
    detail: Text | None
    first_step: Count | None
    last_step: Count | None


class RunRecord(Strict):
    """A run without its steps, figures and model."""

    REQUIRED_RESULTS: ClassVar[tuple[str, ...]] = ("loss", "tokens", "zeta", "reference")

    id: Id
    position: Count
    status: RunStatus
    regularizer: Regularizer
    lam: Number
    zeta: Zeta
    seed: Count
    seed_round: int = Field(1, ge=1, le=1_000)
    config: RunConfig
    worker: str | None = Field(max_length=100)
    error: Text | None
    cause: FailureCause | None = None
    error_field: str | None = Field(None, max_length=64)
    queued_at: Moment
    started_at: Moment | None
    finished_at: Moment | None
    rested_seconds: Number = Field(0.0, ge=0)
    worked_seconds: Number | None = Field(None, ge=0)
    timeline: list[AttemptRecord] = Field([], max_length=10_000)
    heard_at: Moment | None = None
    performance: Number | None
    performance_reason: Reason | None
    isoscore_star: Number | None
    isoscore_star_reason: Reason | None
    results: RunResults | None
    notes: list[Reason] = Field(max_length=1000)
    tags: list[Tag] = Field([], max_length=MAX_TAGS)
    log: Text | None
    environment: dict[str, Any] | None

    @field_validator("tags")
    @classmethod
    def _check_distinct_tags(cls, tags: list[str]) -> list[str]:
        if len({tag.lower() for tag in tags}) < len(tags):
            raise ValueError("expected each tag of a run once, whatever its case")
        return tags

    @field_validator("timeline")
    @classmethod
    def _check_distinct_attempts(cls, attempts: list[AttemptRecord]) -> list[AttemptRecord]:
        if len({attempt.number for attempt in attempts}) < len(attempts):
            raise ValueError("expected each attempt of a run once")
        return attempts

    @model_validator(mode="after")
    def _check_results_and_config(self) -> Self:
        if self.results is not None and self.status is RunStatus.FINISHED:
            for field in self.REQUIRED_RESULTS:
                if field not in self.results.model_fields_set:
                    raise ValueError(f"expected the {field} of a finished run among its results, got none")
        if len(self.config.model) > 200:
            raise ValueError(f"expected a model's name of at most 200 characters, got {len(self.config.model)}")
        for field in ("regularizer", "lam", "zeta", "seed"):
            configured = getattr(self.config, field)
            # A script's config has zeta for I-STAR only, but the column ``zeta`` of a run always has a number.
            if getattr(self, field) != (0.0 if configured is None else configured):
                raise ValueError(
                    f"expected {field} = {configured}, as in the config of the run, got {getattr(self, field)}"
                )
        return self


class StepRecord(Strict):
    """Losses and measures of a run at one step."""

    run: Id
    step: Count
    task_loss: Number | None
    penalty: Number | None
    layers: Annotated[dict[Measure, LayerNumbers], Field(max_length=100)] | None


class Activation(Strict):
    """Mean and standard deviation of a run's sentence vectors by dimension."""

    n: Count
    mean: list[Number] = Field(min_length=1, max_length=100_000)
    std: list[Number] = Field(min_length=1, max_length=100_000)

    @model_validator(mode="after")
    def _check_lengths(self) -> "Activation":
        if len(self.mean) != len(self.std):
            raise ValueError(f"expected as many deviations as the {len(self.mean)} means, got {len(self.std)}")
        return self


class RunFigureRecord(Strict):
    """Data of a run's figure that the row of the run does not hold."""

    run: Id
    slug: Annotated[str, Field(pattern=r"^activation$")]
    data: Activation


class PredictionsRecord(Strict):
    """Some predictions of a run. Records of one run follow one another, sorted by row."""

    run: Id
    split: Split
    rows: list[Count] = Field(min_length=1, max_length=MAX_ROWS_PER_RECORD)
    reference: list[Number] | None
    predicted: list[Number] | list[Answer]
    exact_match: list[Number] | None = None
    f1: list[Number] | None = None

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        columns = (self.rows, self.reference, self.predicted, self.exact_match, self.f1)
        lengths = sorted({len(column) for column in columns if column is not None})
        if len(lengths) > 1:
            raise ValueError(f"expected columns of one length, got lengths {lengths}")
        return self


# Results reported by a script or computed from its logs.
SCRIPT_FIELDS = {
    *Learning.model_fields, "metrics", "metric_reasons", "n_validation", "by_layer", "by_layer_n", "further",
}  # fmt: skip


class LoggedExperimentRecord(ExperimentRecord):
    """An experiment that a user's script logged."""

    config: ReportedConfig  # type: ignore[assignment]
    grid: dict[SettingName, list[Scalar | list[Scalar]]] = Field(max_length=MAX_FIELDS)
    study: None


class LoggedResults(RunResults):
    """Results that a user's script logged, without those that only a worker writes."""

    model_config = ConfigDict(extra="forbid")

    by_layer: dict[Measure, LayerValues]
    by_layer_n: dict[Measure, Count | None]
    further: dict[SettingName, Scalar] = Field(max_length=MAX_SETTINGS)

    @model_validator(mode="after")
    def _check_script_fields(self) -> Self:
        if unknown := self.model_fields_set - SCRIPT_FIELDS:
            raise ValueError(f"expected results that a script can log, got {', '.join(sorted(unknown))}")
        return self


class LoggedRunRecord(RunRecord):
    """A run that a user's script logged. No default replaces what it did not log."""

    REQUIRED_RESULTS = ("metric_reasons", "by_layer", "by_layer_n", "further")

    config: ReportedRunConfig  # type: ignore[assignment]
    results: LoggedResults | None
