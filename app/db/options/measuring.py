"""Options of checkpoints, early stopping, measurements during training, and exports."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from app.db.options.option import CHECKPOINTS, MEASURING, Option
from app.db.options.regularization import Zeta
from app.db.options.training import LearningOptions

PRECHELT = "Prechelt (1998). Early Stopping – But When? Neural Networks: Tricks of the Trade, 55–69."
# One in this many training rows is held out to choose the weights.
HELD_OUT_PART = 10
MEASUREMENTS_PER_RUN = 12
PROBE_TOKENS_PER_DIMENSION = 4
"""Tokens that a measurement reads, per dimension; with fewer the plain IsoScore is far too low."""
MEASURING_TOKENS_PER_DIMENSION = 2
"""Time of the measures in tokens of a forward pass, per dimension; timed on a CPU with BERT-base's shape."""


def default_probe_every(max_steps: int, probe_tokens: float, tokens_per_step: float) -> float:
    """Return the steps between measurements: for twelve per run, or fewer if those took over a ninth of its time.

    ``probe_tokens`` is the cost of a measurement in tokens of a forward pass. A step costs three forward passes.
    """
    return max(1.0, max_steps / MEASUREMENTS_PER_RUN, 3 * probe_tokens / tokens_per_step)


class Checkpoint(StrEnum):
    """Which weights to evaluate and save: the last, or the best on the selection rows."""

    LAST = "last"
    BEST = "best"


class SelectionRows(StrEnum):
    """Rows that choose the best checkpoint and stop a run early.

    Choosing on validation rows makes the reported performance optimistic. Otherwise a tenth of the training rows is
    held out.
    """

    VALIDATION = "validation"
    HELD_OUT = "held_out"


def evaluates_during_training(config: Mapping[str, Any]) -> bool:
    """Return whether a run is evaluated during training, to choose its weights or to stop early."""
    return config.get("checkpoint") == Checkpoint.BEST or config.get("patience") is not None


class MeasuringOptions(LearningOptions):
    """Options of checkpoints, measurements, and exports."""

    checkpoint: Annotated[
        Checkpoint,
        Option(
            "Checkpoint",
            "Which weights to evaluate, and to keep if models are kept.",
            CHECKPOINTS,
            plural="choices of checkpoint",
            words={Checkpoint.LAST: "last", Checkpoint.BEST: "best performance"},
            details="Best: the highest metric on the selection rows.",
        ),
    ] = Checkpoint.LAST
    selection: Annotated[
        SelectionRows,
        Option(
            "Selection rows",
            "Rows that choose the best checkpoint and stop runs early.",
            CHECKPOINTS,
            plural="choices of selection rows",
            words={
                SelectionRows.HELD_OUT: "a held-out tenth of the training rows",
                SelectionRows.VALIDATION: "validation rows (optimistic)",
            },
            needs=evaluates_during_training,
            details="Choosing on the validation rows makes the reported performance optimistic. Otherwise a tenth of "
            "the training rows, the same in every run, is held out.",
        ),
    ] = SelectionRows.HELD_OUT
    evaluate_every: Annotated[
        int | None,
        Field(ge=1, le=10_000_000),
        Option(
            "Evaluate every N steps",
            "Evaluate on the selection rows every N steps. Empty: once per epoch.",
            CHECKPOINTS,
            plural="evaluation intervals",
            unit="step",
            none_means="once per epoch",
            needs=evaluates_during_training,
            details="Applies only if the best checkpoint is chosen or runs stop early.",
        ),
    ] = None
    patience: Annotated[
        int | None,
        Field(ge=1, le=1000),
        Option(
            "Patience",
            "Stop a run after this many evaluations without improvement. Empty: never.",
            CHECKPOINTS,
            plural="patiences",
            unit="evaluation",
            none_means="no early stopping",
            source=PRECHELT,
        ),
    ] = None
    probe_every: Annotated[
        int | None,
        Field(ge=1, le=10_000_000),
        Option(
            "Measure every N steps",
            "Measure isotropy every N steps. Empty: about 12 times per run, in at most a ninth of its time.",
            MEASURING,
            plural="measuring intervals",
            unit="step",
            none_means="about 12 measurements",
            details="Each measurement covers every layer on a sample of the validation rows. One more is taken before "
            "the first step and one after the last.",
            measures=("isoscore_star", "mean_cosine", "twonn"),
        ),
    ] = None
    evaluation_zeta: Annotated[
        Zeta,
        Option(
            "Evaluation ζ",
            "ζ of the reported IsoScore★, the same for all runs.",
            MEASURING,
            in_grid=False,
            formula="IsoScore★ of S = (1 − ζ) S_X + ζ S_S, with S_X of the validation tokens",
            details="Independent of the ζ of training, so that runs with different ζ are comparable. With many tokens, "
            "0 gives plain IsoScore. The analysis of the I-STAR paper used ζ = 0.75 on first tokens by layer, which "
            "runs report too.",
            measures=("isoscore_star", "isoscore"),
        ),
    ] = 0.0
    export: Annotated[
        bool,
        Option(
            "Keep trained models",
            "Keep each trained model for download, in safetensors with a model card.",
            MEASURING,
            plural="choices of keeping the model",
            details="Takes four bytes per weight and run. The launch form shows the total.",
        ),
    ] = False
