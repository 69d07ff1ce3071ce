"""Regularizers, and what a fine-tune can choose of them. For each, lambda above zero asks for more isotropy."""

from collections.abc import Mapping
from enum import StrEnum


class Regularizer(StrEnum):
    """What is added to the task's loss."""

    NONE = "none"
    ISTAR = "istar"
    UNBIASED = "istar_unbiased"
    COSREG = "cosreg"
    ENTROPY = "entropy"
    SPECTRUM = "spectrum"


class Points(StrEnum):
    """Which vectors of a layer a regularizer sees.

    All tokens; the vector that stands for a text in the model's own head, the first token of an encoder and the last
    real one of a causal model; or the mean of the tokens of each text, special ones among them.
    """

    TOKENS = "tokens"
    SENTENCE = "sentence"
    MEAN = "mean"


class Refresh(StrEnum):
    """When I-STAR's shrinkage covariance is estimated anew.

    At the start of every epoch; every ``shrinkage_every`` steps; or at the start alone, and from then on a moving
    average of the batches.
    """

    EPOCH = "epoch"
    STEPS = "steps"
    AVERAGE = "average"


class Bars(StrEnum):
    """Which bars of a batch's barcode have their entropy raised: those of separate groups, or all."""

    PROMINENT = "prominent"
    ALL = "all"


class Layers(StrEnum):
    """Layers named without knowing how many a model has."""

    ALL = "all"
    LAST = "last"


OF_ITS_PAPER: Mapping[Regularizer, tuple[Layers, Points]] = {
    Regularizer.ISTAR: (Layers.ALL, Points.TOKENS),
    # Not tokens: those of one text are not independent, which its correction for few points rests on.
    Regularizer.UNBIASED: (Layers.ALL, Points.MEAN),
    Regularizer.COSREG: (Layers.LAST, Points.TOKENS),
    Regularizer.ENTROPY: (Layers.LAST, Points.SENTENCE),
}
"""What a regularizer sees unless a run chooses; those not named look at no hidden states."""


def added(regularizer: Regularizer, lam: float, fixed: Mapping[Regularizer, float]) -> dict[Regularizer, float]:
    """Lambda of every regularizer that a run adds to its loss; empty for plain training."""
    weights = dict(fixed)
    if regularizer is not Regularizer.NONE and lam != 0:
        weights[regularizer] = lam
    return weights
