"""The configuration of a fine-tune: all that is needed to repeat a run, stored whole in its row."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, field_validator, model_validator


class Regularizer(StrEnum):
    """What is added to the task's loss."""

    NONE = "none"
    ISTAR = "istar"


class Metric(StrEnum):
    """What a run's performance is measured by, on the validation rows."""

    ACCURACY = "accuracy"
    F1 = "f1"
    MATTHEWS = "matthews"


class Schedule(StrEnum):
    """How the learning rate goes on: as in the reference code, or linearly down to zero."""

    CONSTANT = "constant"
    LINEAR = "linear"


LayerNumber = Annotated[int, Field(ge=1, le=1000)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]


class TrainingOptions(BaseModel):
    """What all runs of an experiment share, as a user states it. Defaults are the papers', where they fix one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    text_columns: list[str] = Field(min_length=1, max_length=2)
    label_column: str
    metric: Metric = Metric.ACCURACY
    layers: list[LayerNumber] | None = Field(
        None, min_length=1, description="Layers that I-STAR sees, from 1; null means all."
    )
    epochs: int | None = Field(3, ge=1, le=1000)
    max_steps: int | None = Field(None, ge=1, le=10_000_000)
    batch_size: int = Field(16, ge=1, le=4096)
    learning_rate: FiniteFloat = Field(3e-5, gt=0, le=1)
    schedule: Schedule = Schedule.CONSTANT
    weight_decay: FiniteFloat = Field(0.0, ge=0, le=1)
    max_length: int = Field(128, ge=8, le=4096, description="Tokens; longer texts are cut.")
    train_rows: int | None = Field(None, ge=2, description="Train on this many rows, drawn by a fixed seed.")
    validation_rows: int | None = Field(None, ge=2)
    token_fraction: FiniteFloat = Field(
        1.0, gt=0, le=1, description="Part of a batch's tokens that I-STAR sees, drawn anew for each step by the seed."
    )
    include_padding: bool = Field(False, description="As the reference code does; only for reproduction.")
    shrinkage_points: int = Field(250_000, ge=2, lt=2**31, description="Layer-tokens behind the shrinkage covariance.")
    evaluation_zeta: FiniteFloat = Field(0.0, ge=0, le=1, description="Zeta of the reported IsoScore*.")

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if (self.epochs is None) == (self.max_steps is None):
            raise ValueError("expected either epochs or max_steps; give one of them")
        return self

    @field_validator("layers")
    @classmethod
    def _each_layer_once(cls, layers: list[int] | None) -> list[int] | None:
        return None if layers is None else sorted(set(layers))


class TrainingConfig(TrainingOptions):
    """What all runs of an experiment share, with what was read from its data set."""

    label_names: list[str] = Field(min_length=2)


class RunConfig(TrainingConfig):
    """One run: the shared configuration and the coordinates of this run in the sweep."""

    regularizer: Regularizer
    lam: FiniteFloat
    zeta: FiniteFloat = Field(0.2, ge=0, le=1)
    seed: Seed
