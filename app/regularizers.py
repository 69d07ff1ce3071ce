"""Runs and settings by what they add to their loss, in words."""

from collections.abc import Mapping

from isoscope.core.formatting import short
from isotropy.catalog import REGULARIZERS, Regularizer

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
