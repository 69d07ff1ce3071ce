"""The configuration of a fine-tune: all that is needed to repeat a run, stored whole in its row."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Self, get_args

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
from pydantic.fields import FieldInfo

from app.db.regularizer_options import Bars, Layers, Points, Refresh, Regularizer, added, is_read
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


HELD_OUT_PART = 10
"""One in so many training rows chooses the weights, where that is asked of training rows."""
LOOKS_PER_RUN = 12
"""About so many, where ``probe_every`` is null and they do not take more than their share of the time."""

LayerNumber = Annotated[int, Field(ge=1, le=1000)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Zeta = Annotated[FiniteFloat, Field(ge=0, le=1)]
Weight = Annotated[FiniteFloat, Field(ge=-1e6, le=1e6)]


def words_for_booleans(given: Any, fields: Mapping[str, FieldInfo]) -> Any:
    """Write true and false as words where numbers belong: pydantic would take them for 1 and 0."""
    if not isinstance(given, Mapping):
        return given
    numeric = {name for name, field in fields.items() if _is_numeric(field.annotation)}
    return {name: _in_words(value) if name in numeric else value for name, value in given.items()}


def _is_numeric(annotation: Any) -> bool:
    return annotation in (int, float) or any(map(_is_numeric, get_args(annotation)))


def _in_words(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return [_in_words(one) for one in value]
    return {name: _in_words(one) for name, one in value.items()} if isinstance(value, dict) else value


def _each_once(layers: list[int]) -> list[int]:
    return sorted(set(layers))


def _something_to_add(weights: dict[Regularizer, float]) -> dict[Regularizer, float]:
    return {name: weight for name, weight in weights.items() if name is not Regularizer.NONE and weight}


LayerNumbers = Annotated[list[LayerNumber], Field(min_length=1), AfterValidator(_each_once)]
Weights = Annotated[dict[Regularizer, Weight], AfterValidator(_something_to_add)]


class TrainingOptions(BaseModel):
    """What all runs of an experiment share, as a user states it. Defaults are the papers', where they fix one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(
        description="A model on this machine, or a name of the Hugging Face Hub where that can be reached."
    )
    task: TaskKind = Field(
        TaskKind.CLASSIFICATION, description="What the model learns to give: a class, a number, or an answer in a text."
    )
    text_columns: list[str] = Field(
        min_length=1,
        max_length=2,
        description="What the model reads: one column of texts, or two as a pair; for answers question and context.",
    )
    label_column: str = Field(description="What is to be learned: a class, a number, or the answers.")
    metric: Metric = Field(
        Metric.ACCURACY, validate_default=True, description="How well a run does, counted on the validation rows."
    )

    layers: LayerNumbers | Layers | None = Field(
        None, description="Layers that a regularizer sees: numbers from 1, all or last; without a value, its paper’s."
    )
    points: Points | None = Field(
        None, description="Which vectors of a layer a regularizer sees; without a value, its paper’s."
    )
    token_fraction: FiniteFloat = Field(
        1.0,
        gt=0,
        le=1,
        description="Part of a batch’s tokens that regularizers of tokens see, drawn anew for each batch.",
    )
    include_padding: bool = Field(
        False, description="Padding counts among the tokens a regularizer sees, as in I-STAR’s code; to reproduce it."
    )
    shrinkage_points: int = Field(
        250_000,
        ge=2,
        lt=2**31,
        description="Tokens, counted once for each layer, from which the shrinkage covariance is estimated.",
    )
    shrinkage_refresh: Refresh = Field(Refresh.EPOCH, description="When the shrinkage covariance is estimated anew.")
    shrinkage_every: int = Field(
        500, ge=1, le=10_000_000, description="From one estimate to the next, where there is one every so many steps."
    )
    shrinkage_momentum: FiniteFloat = Field(
        0.99, ge=0, lt=1, description="Part of the old covariance that each step keeps, for the moving average."
    )
    entropy_bars: Bars = Field(
        Bars.PROMINENT,
        description="Bars of the barcode whose entropy is raised: those between separate groups, or all.",
    )
    entropy_by_label: bool = Field(
        True, description="A barcode for each class of a batch, so that classes are not moved towards one another."
    )
    entropy_cluster_weight: FiniteFloat = Field(
        0.0,
        ge=0,
        le=1e6,
        description="Weight of the mean length of the other bars, which it shortens; 0, as in the paper, leaves "
        "it out.",
    )
    beside: Weights = Field(
        default_factory=dict,
        description="Further regularizers, each added to every run, the baseline too, with this λ of its own.",
    )

    epochs: int | None = Field(3, ge=1, le=1000, description="How often all training rows are gone through.")
    max_steps: int | None = Field(
        None,
        ge=1,
        le=10_000_000,
        validate_default=True,
        description="Steps of the optimizer, in place of epochs: where it is given, epochs do not count.",
    )
    batch_size: int = Field(
        16, ge=1, le=4096, description="Rows of a forward pass in each process; of these a penalty is taken."
    )
    accumulation: int = Field(
        1, ge=1, le=1024, description="Batches whose gradients are averaged into one step, each with its own penalty."
    )
    optimizer: Optimizer = Field(
        Optimizer.ADAMW, description="AdamW keeps weight decay apart from the gradient, Adam adds it to that."
    )
    learning_rate: FiniteFloat = Field(3e-5, gt=0, le=1, description="The optimizer’s rate, once the warm-up is over.")
    warmup: FiniteFloat = Field(
        0.0, ge=0, lt=1, description="Part of the steps in which the rate rises from 0: 0.1 is a tenth."
    )
    schedule: Schedule = Field(Schedule.CONSTANT, description="How the rate goes on after the warm-up.")
    weight_decay: FiniteFloat = Field(
        0.0, ge=0, le=1, description="How strongly weights are pulled to 0 at each step; 0 in I-STAR’s paper."
    )
    precision: Precision = Field(
        Precision.FP32, description="Numbers that the model computes in; weights and penalties stay in float32."
    )
    gradient_checkpointing: bool = Field(
        False, description="Compute activations twice instead of keeping them: less memory for more time."
    )
    processes: int = Field(1, ge=1, le=64, description="Processes that train one run together, each on its device.")

    max_length: int = Field(
        128, ge=8, le=4096, description="Tokens read at once; longer texts are cut, or for spans read in windows."
    )
    stride: int = Field(64, ge=0, le=2048, description="Tokens that two windows of a long text share, for spans.")
    train_rows: int | None = Field(
        None, ge=2, description="Train on so many rows, drawn by a fixed seed; without a value on all."
    )
    validation_rows: int | None = Field(
        None, ge=2, description="Validate on so many rows, drawn by a fixed seed; without a value on all."
    )

    probe_every: int | None = Field(
        None,
        ge=1,
        le=10_000_000,
        description="Measure isotropy every N steps. Empty: at most about 12 times per run, and fewer where that would "
        "take more than a sixth of the time.",
    )
    evaluation_zeta: FiniteFloat = Field(
        0.0, ge=0, le=1, description="ζ of the IsoScore★ that is reported, the same for all runs."
    )
    checkpoint: Checkpoint = Field(
        Checkpoint.LAST, description="Which weights of a run are evaluated, and kept where models are kept."
    )
    selection: Selection = Field(
        Selection.HELD_OUT, description="The rows by which the best weights are chosen and a run is stopped early."
    )
    evaluate_every: int | None = Field(
        None,
        ge=1,
        le=10_000_000,
        description="From one evaluation on the selection rows to the next; without a value once an epoch.",
    )
    patience: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="Stop a run after so many evaluations without a better one; without a value never.",
    )
    export: bool = Field(False, description="Keep each trained model for download, as safetensors with a model card.")

    @model_validator(mode="before")
    @classmethod
    def _numbers_are_no_booleans(cls, given: Any) -> Any:
        return words_for_booleans(given, cls.model_fields)

    @model_validator(mode="before")
    @classmethod
    def _steps_alone(cls, given: Any) -> Any:
        """Steps that are said, and epochs that are not, leave the default of epochs out."""
        if not isinstance(given, Mapping) or given.get("max_steps") is None or "epochs" in given:
            return given
        return {**given, "epochs": None}

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

    @property
    def selects(self) -> bool:
        """Whether it is evaluated while it trains, to choose its weights or to stop it early."""
        return self.checkpoint is Checkpoint.BEST or self.patience is not None

    def reads(self, field: str) -> bool:
        """Whether anything in this run depends on a setting."""
        return is_read(field, self.weights, self.points)
