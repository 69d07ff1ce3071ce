"""Options of how a model is trained: length, optimizer, rows and machine."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, FiniteFloat, ValidationInfo, field_validator, model_validator

from app.db.options.option import MACHINE, OPTIMIZER, Option
from app.db.options.regularization import RegularizerOptions
from isoscope.core.task import TaskKind

ADAM = "Kingma & Ba (2015). Adam: A Method for Stochastic Optimization. ICLR 2015."
ADAMW = "Loshchilov & Hutter (2019). Decoupled Weight Decay Regularization. ICLR 2019."
COSINE = "Loshchilov & Hutter (2017). SGDR: Stochastic Gradient Descent with Warm Restarts. ICLR 2017."
MIXED = "Micikevicius et al. (2018). Mixed Precision Training. ICLR 2018."
CHECKPOINTING = "Chen, Xu, Zhang & Guestrin (2016). Training Deep Nets with Sublinear Memory Cost. arXiv:1604.06174."


class Schedule(StrEnum):
    """Learning rate after warm-up: constant, linear decay to zero, or half a cosine down to zero."""

    CONSTANT = "constant"
    LINEAR = "linear"
    COSINE = "cosine"


class Optimizer(StrEnum):
    """Adam with decoupled weight decay (AdamW), or with the decay added to the gradient (Adam)."""

    ADAMW = "adamw"
    ADAM = "adam"


class Precision(StrEnum):
    """Number format of the forward and backward pass. Weights and penalties are float32 in any case."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"


class LearningOptions(RegularizerOptions):
    """Options of the optimizer, the training length, and the machine."""

    epochs: Annotated[
        int | None,
        Field(ge=1, le=1000),
        Option(
            "Epochs",
            "Passes over the training rows.",
            plural="numbers of epochs",
            details="The I-STAR paper trains for 3 to 5 epochs, the persistent-entropy paper for 10.",
        ),
    ] = 3
    max_steps: Annotated[
        int | None,
        Field(ge=1, le=10_000_000),
        Option(
            "Max steps",
            "Optimizer steps. Overrides epochs.",
            plural="numbers of steps",
            unit="step",
        ),
    ] = Field(None, validate_default=True)
    batch_size: Annotated[
        int,
        Field(ge=1, le=4096),
        Option(
            "Batch size",
            "Rows per forward pass and process. The penalty is computed on these rows.",
            OPTIMIZER,
            plural="batch sizes",
            unit="row",
            details="A larger batch makes the penalty less noisy, so the same λ acts differently at another batch "
            "size. If memory runs out, the run halves the batch, accumulates two, and says so.",
        ),
    ] = 16
    accumulation: Annotated[
        int,
        Field(ge=1, le=1024),
        Option(
            "Accumulation",
            "Batches averaged into one optimizer step. Each has its own penalty.",
            OPTIMIZER,
            plural="accumulations",
            unit="batch a step|batches a step",
            formula="gradient = mean over the batches of (loss + λ × penalty of that batch)",
            details="The task loss behaves as with one large batch, but the penalty sees one batch at a time, so "
            "2 × 16 rows differ from 1 × 32.",
        ),
    ] = 1
    learning_rate: Annotated[
        FiniteFloat,
        Field(gt=0, le=1),
        Option(
            "Learning rate",
            "Learning rate after warm-up.",
            plural="rates",
            details="Fine-tuning BERT usually takes 1e-5 to 5e-5, the range of the I-STAR paper.",
        ),
    ] = 3e-5
    max_length: Annotated[
        int,
        Field(ge=8, le=4096),
        Option(
            "Max length (tokens)",
            "Longer texts are truncated. For spans they are split into windows.",
            MACHINE,
            plural="lengths",
            unit="token",
            details="Longer inputs take longer per step. The launch form counts the truncated rows.",
        ),
    ] = 128
    stride: Annotated[
        int,
        Field(ge=0, le=2048),
        Option(
            "Stride",
            "Tokens shared by two neighboring windows of a long text.",
            MACHINE,
            plural="strides",
            unit="token",
            tasks=frozenset({TaskKind.SPAN}),
            details="An answer cut at the end of one window is then whole in the next. Must be smaller than the "
            "window.",
        ),
    ] = 64

    optimizer: Annotated[
        Optimizer,
        Option(
            "Optimizer",
            "AdamW decouples weight decay from the gradient. Adam adds it to the gradient.",
            OPTIMIZER,
            plural="optimizers",
            words={Optimizer.ADAMW: "AdamW", Optimizer.ADAM: "Adam"},
            source=f"{ADAM} {ADAMW}",
        ),
    ] = Optimizer.ADAMW
    schedule: Annotated[
        Schedule,
        Option(
            "Schedule",
            "Learning rate after warm-up.",
            OPTIMIZER,
            plural="schedules",
            words={
                Schedule.CONSTANT: "constant",
                Schedule.LINEAR: "linear decay to 0",
                Schedule.COSINE: "cosine decay to 0",
            },
            details="The I-STAR paper keeps it constant.",
            source=f"Cosine: {COSINE}",
        ),
    ] = Schedule.CONSTANT
    warmup: Annotated[
        FiniteFloat,
        Field(ge=0, lt=1),
        Option(
            "Warm-up",
            "Fraction of all steps during which the learning rate rises from 0, such as 0.1.",
            OPTIMIZER,
            plural="warm-ups",
            formula="rate × step / warm-up steps, during the warm-up",
        ),
    ] = 0.0
    weight_decay: Annotated[
        FiniteFloat,
        Field(ge=0, le=1),
        Option(
            "Weight decay",
            "Strength of the pull of weights toward 0 at each step. The I-STAR paper uses 0.",
            OPTIMIZER,
            plural="weight decays",
            formula="w ← w − rate × decay × w for AdamW",
            source=ADAMW,
        ),
    ] = 0.0

    train_rows: Annotated[
        int | None,
        Field(ge=2),
        Option(
            "Train rows",
            "Train on this many rows, sampled with a fixed seed. Empty: all rows.",
            MACHINE,
            unit="row",
            none_means="all rows",
            in_grid=False,
            details="Every run of the experiment uses the same rows.",
        ),
    ] = None
    validation_rows: Annotated[
        int | None,
        Field(ge=2),
        Option(
            "Validation rows",
            "Validate on this many rows, sampled with a fixed seed. Empty: all rows.",
            MACHINE,
            unit="row",
            none_means="all rows",
            in_grid=False,
            details="Fewer rows make performance less certain: about ± 0.1 for accuracy on 100 rows.",
        ),
    ] = None
    precision: Annotated[
        Precision,
        Option(
            "Precision",
            "Number format of the model’s computation. Weights and penalties stay in float32.",
            MACHINE,
            plural="precisions",
            words={Precision.FP32: "float32", Precision.FP16: "float16, on a GPU", Precision.BF16: "bfloat16"},
            details="Half precision is faster and takes less memory on a GPU. float16 requires one. bfloat16 has the "
            "range of float32 with fewer digits.",
            source=MIXED,
        ),
    ] = Precision.FP32
    processes: Annotated[
        int,
        Field(ge=1, le=64),
        Option(
            "Processes",
            "Processes that train one run together, each on its own device.",
            MACHINE,
            plural="numbers of processes",
            unit="process|processes",
            details="The penalty treats the rows of all processes as one cloud. The authors’ code of I-STAR averages "
            "the scores of processes. One step reads batch size × accumulation × processes rows.",
        ),
    ] = 1
    gradient_checkpointing: Annotated[
        bool,
        Option(
            "Gradient checkpointing",
            "Recompute activations instead of storing them: less memory, more time.",
            MACHINE,
            plural="kinds of gradient checkpointing",
            source=CHECKPOINTING,
        ),
    ] = False

    @model_validator(mode="before")
    @classmethod
    def _drop_default_epochs(cls, document: Any) -> Any:
        """Unset epochs if only ``max_steps`` is set, so that their default does not conflict."""
        if not isinstance(document, Mapping) or document.get("max_steps") is None or "epochs" in document:
            return document
        return {**document, "epochs": None}

    @field_validator("max_steps")
    @classmethod
    def _require_one_length(cls, max_steps: int | None, info: ValidationInfo) -> int | None:
        if "epochs" in info.data and (info.data["epochs"] is None) == (max_steps is None):
            raise ValueError("expected either `epochs` or `max_steps`; give one of them")
        return max_steps
