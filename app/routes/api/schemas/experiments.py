"""Experiments, their runs and what these logged."""

from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel, Field, ModelWrapValidatorHandler, model_validator

from app.db.divergence import diverged
from app.db.models import AttemptOutcome, ExperimentOrigin, FailureCause, Phase, Run, RunStatus
from app.db.regularizer_options import Regularizer
from app.db.trivial import learned_nothing
from app.routes.api.schemas.row import Row


class RunSummary(Row):
    """A run in a list of experiments."""

    id: str
    regularizer: Regularizer
    lam: float
    zeta: float
    seed: int
    status: RunStatus
    phase: Phase | None
    phase_done: int
    phase_total: int | None
    worker: str | None
    priority: int
    error: str | None
    cause: FailureCause | None
    performance: float | None
    performance_reason: str | None
    isoscore_star: float | None
    isoscore_star_reason: str | None
    queued_at: datetime
    started_at: datetime | None
    finished_at: datetime | None = Field(description="When work on it came to rest: at its end, or at a pause.")
    seconds: float | None = Field(description="How long it was worked on since it last began at step 0.")


class RunOfExperiment(RunSummary):
    """A run in its experiment."""

    setting: dict[str, Any] = Field(description="Its value of every field of the experiment's grid.")
    learned_nothing: str | None = Field(
        None,
        description="Why the run learned nothing: it is not better than the trivial predictor, or predicts the same "
        "for every row. Null otherwise, and where nothing is known.",
    )
    diverged: str | None = Field(None, description="How training diverged. Null otherwise, and where nothing is known.")

    @model_validator(mode="wrap")
    @classmethod
    def _judged(cls, row: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        found = read(row)
        if isinstance(row, Run):
            found.learned_nothing, found.diverged = learned_nothing(row), diverged(row)
        return found


class StepOut(Row):
    """What was logged at one optimizer step."""

    step: int
    task_loss: float | None
    penalty: float | None
    layers: dict[str, list[float | None]] | None


class AttemptOut(Row):
    """One process that worked on a run, and how it ended."""

    number: int
    worker: str
    started_at: datetime
    ended_at: datetime | None = Field(description="Null while it is at work. Of a lost worker: its last heartbeat.")
    seconds: float = Field(description="How long it worked, whatever was done to the machine's clock.")
    outcome: AttemptOutcome | None
    detail: str | None = Field(description="The signal, exit code or error it ended with.")
    first_step: int | None = Field(description="Step it resumed from, 0 from the start; null if it never trained.")
    last_step: int | None = Field(description="Last step it logged.")


class RunOut(RunOfExperiment):
    """A run with all that is needed to repeat it and all that was logged."""

    experiment_id: str
    config: dict[str, Any]
    results: dict[str, Any] | None
    notes: list[str]
    log: str | None
    error_field: str | None
    model_sha256: str | None
    environment: dict[str, Any] | None
    attempts: list[AttemptOut] = Field(validation_alias="timeline", description="Oldest first.")
    steps: list[StepOut]


class ScriptRunOut(Row):
    """How far a run is that a user's own script writes."""

    id: str
    experiment_id: str
    status: RunStatus
    phase_done: int = Field(description="The last step that was logged.")
    phase_total: int | None = Field(description="Steps in all, where the script has said it.")


class PredictionOut(BaseModel):
    """What a run predicted for one validation row."""

    row: int = Field(description="Position in the validation rows, from 0.")
    reference: int | float | str | None = Field(description="Right class or number; null for answers.")
    predicted: int | float | str = Field(description="Predicted class, number or answer.")
    exact_match: float | None = Field(description="Of an answer: 1 if it is exactly right, else 0.")
    f1: float | None = Field(description="Of an answer: F1 of its words.")


class ActivationOut(BaseModel):
    """Sentence vectors of a trained model's last layer, dimension by dimension."""

    n: int
    mean: list[float]
    std: list[float]


class RunFound(RunOfExperiment):
    """A run among those of all experiments."""

    experiment_id: str
    experiment: str = Field(description="Name of its experiment.")
    dataset_id: str
    dataset: str = Field(description="Name of its data set.")
    model: str
    metric: str = Field(description="What its performance is measured by.")


class ExperimentHead(Row):
    """An experiment without its runs."""

    id: str
    name: str
    dataset_id: str
    config: dict[str, Any]
    grid: dict[str, list[Any]]
    origin: ExperimentOrigin
    study: dict[str, Any] | None = Field(description="Of a search: what it searches, and whether that is over.")
    created_at: datetime
    status: RunStatus


class ExtentOut(Row):
    """How many runs have a performance, and between which two all lie."""

    n: int
    lowest: float | None
    highest: float | None


class ExperimentSummary(ExperimentHead):
    """An experiment in a list of them, its runs in numbers."""

    dataset: str = Field(description="Name of its data set.")
    total: int = Field(description="Runs it has.")
    counts: dict[RunStatus, int] = Field(description="Runs in each state.")
    performance: ExtentOut = Field(description="By the metric of the configuration.")


class ExperimentOut(ExperimentHead):
    """An experiment and its runs."""

    runs: list[RunOfExperiment]
