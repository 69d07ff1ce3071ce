"""Options of how a model is trained: length, optimizer, rows and machine."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, FiniteFloat, ValidationInfo, field_validator, model_validator

from app.db.options import sources
from app.db.options.option import MACHINE, OPTIMIZER, Option
from app.db.options.regularization import RegularizerOptions
from isoscope.core.task import TaskKind


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


class LearningOptions(RegularizerOptions):
    """How weights are learned, and on what machine."""

    epochs: Annotated[
        int | None,
        Field(ge=1, le=1000),
        Option(
            "Epochs",
            "How often all training rows are gone through.",
            several="numbers of epochs",
            slows=False,
            more="3 to 5 in I-STAR’s paper, 10 in that of persistent entropy.",
        ),
    ] = 3
    max_steps: Annotated[
        int | None,
        Field(ge=1, le=10_000_000),
        Option(
            "Max steps",
            "Steps of the optimizer. Overrides epochs.",
            several="numbers of steps",
            unit="step",
            slows=False,
        ),
    ] = Field(None, validate_default=True)
    batch_size: Annotated[
        int,
        Field(ge=1, le=4096),
        Option(
            "Batch size",
            "Rows of a forward pass in each process; of these a penalty is taken.",
            several="batch sizes",
            unit="row",
            more="A penalty of more rows is less noisy, so λ of different batch sizes is not the same: a bigger batch "
            "is not just faster. If memory runs out, the batch is halved and two are accumulated, which the run then "
            "says.",
        ),
    ] = 16
    accumulation: Annotated[
        int,
        Field(ge=1, le=1024),
        Option(
            "Accumulation",
            "Batches whose gradients are averaged into one step, each with its own penalty.",
            several="accumulations",
            unit="batch a step|batches a step",
            formula="gradient = mean over the batches of (loss + λ × penalty of that batch)",
            more="So the task learns as from a batch of all rows, but a penalty still sees the rows of one batch at a "
            "time: 2 batches of 16 are not 1 batch of 32 for it.",
        ),
    ] = 1
    learning_rate: Annotated[
        FiniteFloat,
        Field(gt=0, le=1),
        Option(
            "Learning rate",
            "The optimizer’s rate, once the warm-up is over.",
            several="rates",
            slows=False,
            more="1e-5 to 5e-5 are usual for fine-tunes of BERT; I-STAR’s paper tries these.",
        ),
    ] = 3e-5
    max_length: Annotated[
        int,
        Field(ge=8, le=4096),
        Option(
            "Max length (tokens)",
            "Tokens read at once. Longer texts are cut, or for spans read in windows.",
            several="lengths",
            unit="token",
            more="The time of a step grows with it. A dry run tells how many rows are cut.",
        ),
    ] = 128
    stride: Annotated[
        int,
        Field(ge=0, le=2048),
        Option(
            "Stride",
            "Tokens that two windows of a long text share.",
            several="strides",
            unit="token",
            tasks=frozenset({TaskKind.SPAN}),
            more="So that an answer at the end of one window stands whole in another. It is below the window.",
        ),
    ] = 64

    optimizer: Annotated[
        Optimizer,
        Option(
            "Optimizer",
            "AdamW keeps weight decay apart from the gradient, Adam adds it to that.",
            OPTIMIZER,
            several="optimizers",
            words={Optimizer.ADAMW: "AdamW", Optimizer.ADAM: "Adam"},
            source=f"{sources.ADAM} {sources.ADAMW}",
        ),
    ] = Optimizer.ADAMW
    schedule: Annotated[
        Schedule,
        Option(
            "Schedule",
            "How the rate goes on after the warm-up.",
            OPTIMIZER,
            several="schedules",
            words={
                Schedule.CONSTANT: "constant",
                Schedule.LINEAR: "linear, down to 0",
                Schedule.COSINE: "half a cosine, down to 0",
            },
            slows=False,
            more="Constant in I-STAR’s paper.",
            source=f"Half a cosine: {sources.COSINE}",
        ),
    ] = Schedule.CONSTANT
    warmup: Annotated[
        FiniteFloat,
        Field(ge=0, lt=1),
        Option(
            "Warm-up",
            "Fraction of the steps in which the rate rises from 0: 0.1 is a tenth.",
            OPTIMIZER,
            several="warm-ups",
            slows=False,
            formula="rate × step / warm-up steps, until these are over",
        ),
    ] = 0.0
    weight_decay: Annotated[
        FiniteFloat,
        Field(ge=0, le=1),
        Option(
            "Weight decay",
            "How strongly weights are pulled to 0 at each step; 0 in I-STAR’s paper.",
            OPTIMIZER,
            several="weight decays",
            slows=False,
            formula="w ← w − rate × decay × w for AdamW",
            source=sources.ADAMW,
        ),
    ] = 0.0

    train_rows: Annotated[
        int | None,
        Field(ge=2),
        Option(
            "Train rows",
            "Train on this many rows, drawn by a fixed seed. Empty: all.",
            MACHINE,
            unit="row",
            none_means="all rows",
            in_grid=False,
            slows=False,
            more="The same rows in every run of the experiment.",
        ),
    ] = None
    validation_rows: Annotated[
        int | None,
        Field(ge=2),
        Option(
            "Validation rows",
            "Validate on this many rows, drawn by a fixed seed. Empty: all.",
            MACHINE,
            unit="row",
            none_means="all rows",
            in_grid=False,
            slows=False,
            more="Fewer rows make performance less certain: of 100, accuracy is known to about 0.1.",
        ),
    ] = None
    precision: Annotated[
        Precision,
        Option(
            "Precision",
            "Numbers that the model computes in; weights and penalties stay in float32.",
            MACHINE,
            several="precisions",
            words={
                Precision.FP32: "float32",
                Precision.FP16: "float16, on a GPU",
                Precision.BF16: "bfloat16",
            },
            more="Half precision is faster and smaller on a GPU. float16 needs one; bfloat16 has the range of float32 "
            "with fewer digits.",
            source=sources.MIXED,
        ),
    ] = Precision.FP32
    processes: Annotated[
        int,
        Field(ge=1, le=64),
        Option(
            "Processes",
            "Processes that train one run together, each on its device.",
            MACHINE,
            several="numbers of processes",
            unit="process|processes",
            more="A penalty is that of all processes’ rows as one cloud. A step reads batch size × accumulation × "
            "processes rows.",
        ),
    ] = 1
    gradient_checkpointing: Annotated[
        bool,
        Option(
            "Gradient checkpointing",
            "Compute activations twice instead of keeping them: less memory for more time.",
            MACHINE,
            several="kinds of gradient checkpointing",
            source=sources.CHECKPOINTING,
        ),
    ] = False

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
            raise ValueError("expected either `epochs` or `max_steps`; give one of them")
        return max_steps
