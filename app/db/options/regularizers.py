"""Regularizers as rows, requests and runs name them, and what a fine-tune can choose of them."""

from collections.abc import Mapping
from enum import StrEnum

from isoscope.core.formatting import short
from isotropy.catalog import REGULARIZERS, Layers, Points, Regularizer

__all__ = ["SEEING", "SEEING_TOKENS", "Bars", "Layers", "Points", "Refresh", "Regularizer", "added", "reading"]


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


SEEING = frozenset(name for name, penalty in REGULARIZERS.items() if penalty.sees is not None)
"""Regularizers that look at hidden states."""
SEEING_TOKENS = frozenset(name for name in SEEING if REGULARIZERS[name].tokens)


def reading(option: str) -> frozenset[Regularizer]:
    """Return the regularizers whose records name an option as one of theirs."""
    return frozenset(name for name, penalty in REGULARIZERS.items() if option in penalty.options)


def added(regularizer: Regularizer, lam: float, fixed: Mapping[Regularizer, float]) -> dict[Regularizer, float]:
    """Lambda of every regularizer that a run adds to its loss; empty for plain training."""
    weights = dict(fixed)
    if regularizer is not Regularizer.NONE and lam != 0:
        weights[regularizer] = lam
    return weights


NAMES: Mapping[Regularizer, str] = {
    Regularizer.NONE: "none",
    **{regularizer: penalty.name for regularizer, penalty in REGULARIZERS.items()},
}


def added_words(weights: Mapping[str, float]) -> str:
    """Regularizers with their λ: CosReg 1; I-STAR 0.5; none."""
    named = [f"{NAMES[one]} {short(weights[one])}" for one in Regularizer if one in weights]
    return "; ".join(named) or NAMES[Regularizer.NONE]


def coordinates(regularizer: Regularizer, lam: float) -> str:
    """Which run of a sweep it is, but for seed and grid: I-STAR, λ = −1."""
    return f"{'baseline' if regularizer is Regularizer.NONE else NAMES[regularizer]}, λ = {short(lam)}"
