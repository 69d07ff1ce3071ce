"""Settings of both papers, by stage of their searches.

Sources: the texts, poster and public code of Rudman and Eickhoff 2024, arXiv:2305.19358, and of Kudriashov, Karpik and
Klyshinsky 2025, arXiv:2501.05502. Where text and code disagree, ``differs`` says which Isoscope follows.
"""

from enum import StrEnum
from typing import Any, NamedTuple

from isoscope.core.task import TaskKind

ISTAR_PAPER = "Rudman and Eickhoff 2024, Stable Anisotropic Regularization (I-STAR)"
SHRINK_PAPER = "Kudriashov, Karpik and Klyshinsky 2025, Shrink the longest"

ISTAR_MODELS = ["bert-base-cased", "distilbert-base-cased", "albert-base-v2"]
SHRINK_MODELS = ["bert-base-uncased", "roberta-base"]


class Stage(StrEnum):
    """The slug of a preset. The presets of the I-STAR paper are stages of its search."""

    ISTAR_SEARCH = "istar-1-search"
    ISTAR_TUNING = "istar-2-tuning"
    ISTAR_SEEDS = "istar-3-seeds"
    ISTAR_COSREG = "istar-cosreg"
    SHRINK_MRPC = "shrink-mrpc"
    SHRINK_COLA = "shrink-cola"


class Preset(NamedTuple):
    """Form values from a paper, and how they differ from it."""

    title: str
    paper: str
    what: str
    settings: dict[str, Any]
    models: list[str]
    differs: list[str]


_ISTAR = {
    "accumulation": 2, "precision": "fp16", "optimizer": "adamw", "weight_decay": 0.0, "schedule": "constant",
    "warmup": 0.0,
}  # fmt: skip
_ISTAR_BEST = {"batch_size": 32, "epochs": 3, "learning_rate": 3e-5}
_ZETA = (
    "ζ weighs the shrinkage covariance, as in Algorithm 1, the poster and the code; the text’s section 3 exchanges the "
    "weights."
)
_PADDING = "Padding is not counted here. The code counts it among the tokens; “Include padding” does the same."
_TRAINING = [
    "Two batches are averaged into one step, as the paper says; the public code has no accumulation.",
    "Seeds also order the training rows; the code orders them by a seed that is always 0.",
]
_ISTAR_ASSUMED = "Batch size, epochs and rate stand for what the first stage finds best; the paper does not say which."

_SHRINK = {
    "regularizers": ["entropy"], "lambdas": [1.0], "seeds": [0, 1, 2, 3, 4],
    "batch_size": 64, "epochs": 10, "optimizer": "adam", "warmup": 0.1, "schedule": "constant",
    "layers": "last", "points": "sentence", "entropy_by_label": True, "entropy_cluster_weight": 0.0,
    "grid": {"entropy_bars": ["prominent", "all"]},
}  # fmt: skip
_SHRINK_DIFFERS = [
    "Adam with a linear warm-up, as in the text, over 10% of the steps, as in the code; then a constant rate, since "
    "the text names no decay. The code has AdamW and a cosine.",
    "λ = 1 is the code’s weight; the text names none.",
    "Prominent bars are Atienza’s rule, as in the text. The code keeps one bar too many.",
    "The entropy is of a batch of 64, and so is the task’s loss. The code gathers 8 batches of 8 and divides the "
    "task’s loss alone by 8.",
    "The length of the other bars is left alone, as in the text; the code’s notebook makes them longer.",
]


def _shrink_preset(task: str, learning_rate: float, weight_decay: float) -> Preset:
    return Preset(
        f"{task}: prominent bars, all bars, none",
        SHRINK_PAPER,
        f"Persistent entropy of the last layer’s first tokens within each class, on {task}: of the prominent bars, of "
        "all bars, and without, five seeds each. Its anisotropies are means over the last 30% of the training.",
        _SHRINK | {"learning_rate": learning_rate, "weight_decay": weight_decay},
        SHRINK_MODELS,
        _SHRINK_DIFFERS,
    )


def misfit_warning(preset: Preset, task: str) -> str | None:
    if task == TaskKind.CLASSIFICATION or not preset.settings.get("entropy_by_label"):
        return None
    return (
        f"The paper takes a barcode of each class, and {task} has no classes: here it is of the whole batch, which is "
        "not what the paper did. For its results choose a data set for classification."
    )


PRESETS = {
    Stage.ISTAR_SEARCH: Preset(
        "1. Batch size, epochs and rate",
        ISTAR_PAPER,
        "The search at λ = 0: every batch size, number of epochs and rate, without a regularizer.",
        _ISTAR
        | {
            "regularizers": ["none"],
            "lambdas": [0.0],
            "seeds": [0],
            "grid": {"batch_size": [8, 16, 32], "epochs": [3, 4, 5], "learning_rate": [1e-5, 3e-5, 5e-5]},
        },
        ISTAR_MODELS,
        _TRAINING,
    ),
    Stage.ISTAR_TUNING: Preset(
        "2. λ and ζ",
        ISTAR_PAPER,
        "The search for λ and ζ, with the batch size, epochs and rate that were found best.",
        _ISTAR
        | _ISTAR_BEST
        | {
            "regularizers": ["istar"],
            "lambdas": [-5.0, -3.0, -1.0, 0.5, 1.0, 3.0, 5.0],
            "zetas": [0.2, 0.4, 0.6, 0.8],
            "seeds": [0],
        },
        ISTAR_MODELS,
        [_ISTAR_ASSUMED, _ZETA, _PADDING, *_TRAINING],
    ),
    Stage.ISTAR_SEEDS: Preset(
        "3. Five seeds",
        ISTAR_PAPER,
        "The best λ and ζ and the baseline, five seeds each: Table 1 of the paper.",
        _ISTAR | _ISTAR_BEST | {"regularizers": ["istar"], "lambdas": [-1.0], "zetas": [0.2], "seeds": [0, 1, 2, 3, 4]},
        ISTAR_MODELS,
        [
            _ISTAR_ASSUMED,
            "λ and ζ stand for what the second stage finds best, for each model and task.",
            _ZETA,
            _PADDING,
            *_TRAINING,
        ],
    ),
    Stage.ISTAR_COSREG: Preset(
        "Comparison: CosReg at λ = 1",
        ISTAR_PAPER,
        "CosReg on the last layer’s tokens at λ = 1, and the baseline, five seeds each.",
        _ISTAR | _ISTAR_BEST | {"regularizers": ["cosreg"], "lambdas": [1.0], "seeds": [0, 1, 2, 3, 4]},
        ISTAR_MODELS,
        [_ISTAR_ASSUMED, _PADDING, *_TRAINING],
    ),
    Stage.SHRINK_MRPC: _shrink_preset("MRPC", 8e-5, 8e-6),
    Stage.SHRINK_COLA: _shrink_preset("CoLA", 5e-5, 5e-6),
}
