"""The configuration of a fine-tune: all that is needed to repeat a run, stored whole in its row."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationInfo,
    field_validator,
    model_validator,
)

from app.db.penalty import Bars, Layers, Points, Refresh, Regularizer, added, is_read
from app.db.task import METRICS, Metric, TaskKind


class Schedule(StrEnum):
    """How the learning rate goes on after its warm-up: as it is, linearly down to zero, or along half a cosine."""

    CONSTANT = "constant"
    LINEAR = "linear"
    COSINE = "cosine"


class Optimizer(StrEnum):
    """Adam with its weight decay apart from the gradient, or as a part of it."""

    ADAMW = "adamw"
    ADAM = "adam"


class Precision(StrEnum):
    """What the model computes in; weights and penalties stay in float32."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"


class Checkpoint(StrEnum):
    """Which weights of a run are evaluated and saved: the last, or the best by its metric on the selection rows."""

    LAST = "last"
    BEST = "best"


class Selection(StrEnum):
    """The rows by which the best checkpoint is chosen and a run is stopped early.

    The validation rows themselves, which makes the reported performance optimistic; or a tenth of the training rows,
    which are not trained on then.
    """

    VALIDATION = "validation"
    HELD_OUT = "held_out"


LOOKS_PER_RUN = 12
"""About so many, where ``probe_every`` is null and they do not take more than their share of the time."""

LayerNumber = Annotated[int, Field(ge=1, le=1000)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Zeta = Annotated[FiniteFloat, Field(ge=0, le=1)]
Weight = Annotated[FiniteFloat, Field(ge=-1e6, le=1e6)]


def _each_once(layers: list[int]) -> list[int]:
    return sorted(set(layers))


def _something_to_add(weights: dict[Regularizer, float]) -> dict[Regularizer, float]:
    return {name: weight for name, weight in weights.items() if name is not Regularizer.NONE and weight}


LayerNumbers = Annotated[list[LayerNumber], Field(min_length=1), AfterValidator(_each_once)]
Weights = Annotated[dict[Regularizer, Weight], AfterValidator(_something_to_add)]


class TrainingOptions(BaseModel):
    """What all runs of an experiment share, as a user states it. Defaults are the papers', where they fix one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    task: TaskKind = TaskKind.CLASSIFICATION
    text_columns: list[str] = Field(min_length=1, max_length=2)
    label_column: str
    metric: Metric = Field(Metric.ACCURACY, validate_default=True)

    layers: LayerNumbers | Layers | None = Field(
        None, description="Layers that a regularizer sees, from 1; null means those of its paper."
    )
    points: Points | None = Field(
        None, description="Which vectors of a layer a regularizer sees; null means those of its paper."
    )
    token_fraction: FiniteFloat = Field(
        1.0, gt=0, le=1, description="Part of a batch's tokens that regularizers of tokens see, drawn anew each step."
    )
    include_padding: bool = Field(
        False, description="Padding counts among the tokens a regularizer sees, as in I-STAR's code; to reproduce it."
    )
    shrinkage_points: int = Field(250_000, ge=2, lt=2**31, description="Layer-tokens behind the shrinkage covariance.")
    shrinkage_refresh: Refresh = Field(Refresh.EPOCH, description="When the shrinkage covariance is estimated anew.")
    shrinkage_every: int = Field(500, ge=1, le=10_000_000, description="Steps between two estimates, for 'steps'.")
    shrinkage_momentum: FiniteFloat = Field(
        0.99, ge=0, lt=1, description="Weight of the past in the moving average, for 'average'."
    )
    entropy_bars: Bars = Field(Bars.PROMINENT, description="Bars whose entropy is raised.")
    entropy_by_label: bool = Field(True, description="Within each class, so that classes are not drawn together.")
    entropy_cluster_weight: FiniteFloat = Field(
        0.0,
        ge=0,
        le=1e6,
        description="Weight of the mean length of the other bars, which it shortens.",
    )
    beside: Weights = Field(
        default_factory=dict, description="Further regularizers, each added to every run with this lambda."
    )

    epochs: int | None = Field(3, ge=1, le=1000)
    max_steps: int | None = Field(None, ge=1, le=10_000_000, validate_default=True)
    batch_size: int = Field(16, ge=1, le=4096, description="Rows of a forward pass, in each process.")
    accumulation: int = Field(1, ge=1, le=1024, description="Batches whose gradients are averaged into one step.")
    optimizer: Optimizer = Optimizer.ADAMW
    learning_rate: FiniteFloat = Field(3e-5, gt=0, le=1)
    warmup: FiniteFloat = Field(0.0, ge=0, lt=1, description="Part of the steps in which the rate rises from 0.")
    schedule: Schedule = Schedule.CONSTANT
    weight_decay: FiniteFloat = Field(0.0, ge=0, le=1)
    precision: Precision = Precision.FP32
    gradient_checkpointing: bool = Field(False, description="Less memory for more time.")
    processes: int = Field(1, ge=1, le=64, description="Processes that train one run together, each on its device.")

    max_length: int = Field(
        128, ge=8, le=4096, description="Tokens; longer texts are cut, or for spans read in windows."
    )
    stride: int = Field(64, ge=0, le=2048, description="Tokens that two windows of a long text share, for spans.")
    train_rows: int | None = Field(None, ge=2, description="Train on this many rows, drawn by a fixed seed.")
    validation_rows: int | None = Field(None, ge=2)

    probe_every: int | None = Field(
        None, ge=1, le=10_000_000, description="Steps between two looks at the layers; null means about twelve in all."
    )
    evaluation_zeta: FiniteFloat = Field(0.0, ge=0, le=1, description="Zeta of the reported IsoScore*.")
    checkpoint: Checkpoint = Checkpoint.LAST
    selection: Selection = Selection.HELD_OUT
    evaluate_every: int | None = Field(
        None, ge=1, le=10_000_000, description="Steps between two evaluations on the selection rows; null: each epoch."
    )
    patience: int | None = Field(
        None, ge=1, le=1000, description="Stop after so many evaluations that are not the best; null: never."
    )
    export: bool = Field(False, description="Keep the trained model for download.")

    @field_validator("max_steps")
    @classmethod
    def _one_length(cls, max_steps: int | None, info: ValidationInfo) -> int | None:
        if "epochs" in info.data and (info.data["epochs"] is None) == (max_steps is None):
            raise ValueError("expected either epochs or max_steps; give one of them")
        return max_steps

    @field_validator("metric")
    @classmethod
    def _metric_of_the_task(cls, metric: Metric, info: ValidationInfo) -> Metric:
        task = info.data.get("task")
        if task is not None and metric not in METRICS[task]:
            raise ValueError(f"expected a metric of {task}, one of {', '.join(METRICS[task])}; got {metric}")
        return metric


class TrainingConfig(TrainingOptions):
    """What all runs of an experiment share, with what was read from its data set."""

    label_names: list[str] = Field(description="The classes, in order; empty where the task is not classification.")

    @model_validator(mode="after")
    def _classes_of_a_classification(self) -> Self:
        if (self.task is TaskKind.CLASSIFICATION) != (len(self.label_names) >= 2):
            raise ValueError(f"expected two classes or more for classification and none else; got {self.label_names}")
        return self


class RunConfig(TrainingConfig):
    """One run: the shared configuration and the coordinates of this run in the sweep."""

    regularizer: Regularizer
    lam: FiniteFloat
    zeta: Zeta = 0.2
    seed: Seed

    @property
    def weights(self) -> dict[Regularizer, float]:
        """Lambda of every regularizer that this run adds to its loss; empty for plain training."""
        return added(self.regularizer, self.lam, self.beside)

    def reads(self, field: str) -> bool:
        """Whether anything in this run depends on a setting."""
        return is_read(field, self.weights, self.points)
