"""Options of what is watched while a run trains, which weights are evaluated, and what is kept."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from app.db.options import sources
from app.db.options.option import CHECKPOINTS, MEASURING, Option
from app.db.options.regularization import Zeta
from app.db.options.training import LearningOptions
from isotropy.catalog.sources import RUDMAN_2024


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


def selects(config: Mapping[str, Any]) -> bool:
    """Whether a run of this configuration is evaluated while it trains, to choose its weights or to stop it early."""
    return config.get("checkpoint") == Checkpoint.BEST or config.get("patience") is not None


class MeasuringOptions(LearningOptions):
    """What is measured, chosen and kept."""

    checkpoint: Annotated[
        Checkpoint,
        Option(
            "Checkpoint",
            "Which weights of a run are evaluated, and kept where models are kept.",
            CHECKPOINTS,
            several="choices of checkpoint",
            words={Checkpoint.LAST: "the last", Checkpoint.BEST: "the best by its performance"},
            slows=False,
            more="The best is that of the best metric on the selection rows below.",
        ),
    ] = Checkpoint.LAST
    selection: Annotated[
        Selection,
        Option(
            "Selection rows",
            "The rows by which the best weights are chosen and a run is stopped early.",
            CHECKPOINTS,
            several="choices of selection rows",
            words={
                Selection.HELD_OUT: "a tenth of the training rows, left out",
                Selection.VALIDATION: "the validation rows: optimistic",
            },
            slows=False,
            needs=selects,
            more="Rows that choose flatter what they choose: on the validation rows the reported performance is "
            "optimistic. Of the training rows a tenth, the same in every run, is then not trained on.",
        ),
    ] = Selection.HELD_OUT
    evaluate_every: Annotated[
        int | None,
        Field(ge=1, le=10_000_000),
        Option(
            "Evaluate every N steps",
            "Steps from one evaluation on the selection rows to the next. Empty: once an epoch.",
            CHECKPOINTS,
            several="evaluation intervals",
            unit="step",
            none_means="once an epoch",
            slows=False,
            needs=selects,
            more="Read only where weights are chosen or runs are stopped early.",
        ),
    ] = None
    patience: Annotated[
        int | None,
        Field(ge=1, le=1000),
        Option(
            "Patience",
            "Stop a run after this many evaluations without a better one. Empty: never.",
            CHECKPOINTS,
            several="patiences",
            unit="evaluation",
            none_means="never stopped early",
            slows=False,
            source=sources.PRECHELT,
        ),
    ] = None

    probe_every: Annotated[
        int | None,
        Field(ge=1, le=10_000_000),
        Option(
            "Measure every N steps",
            "Measure isotropy every N steps. Empty: at most about 12 times per run, and fewer where that would take "
            "more than a sixth of the time.",
            MEASURING,
            several="measuring intervals",
            unit="step",
            none_means="at most about 12 measurements",
            slows=False,
            more="Each measurement is of every layer on some validation rows. One before the first step and one after "
            "the last come on top.",
            measures=("isoscore_star", "mean_cosine", "twonn"),
        ),
    ] = None
    evaluation_zeta: Annotated[
        Zeta,
        Option(
            "Evaluation ζ",
            "ζ of the IsoScore★ that is reported, the same for all runs.",
            MEASURING,
            in_grid=False,
            slows=False,
            formula="IsoScore★ of S = (1 − ζ) S_X + ζ S_S, here S_X of the validation tokens",
            more="Apart from the ζ of training, so that runs of different ζ are measured alike. 0, of very many "
            "tokens, is the plain IsoScore.",
            source=RUDMAN_2024,
            measures=("isoscore_star", "isoscore"),
        ),
    ] = 0.0
    export: Annotated[
        bool,
        Option(
            "Keep trained models",
            "Keep each trained model for download, as safetensors with a model card.",
            MEASURING,
            several="choices of keeping the model",
            slows=False,
            more="In float32 that is four bytes for every weight of every run; a dry run tells how much.",
        ),
    ] = False
