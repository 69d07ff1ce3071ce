"""What each regularizer is called, what it adds to the loss, and where it is from."""

from collections.abc import Mapping
from typing import NamedTuple

from app.db.regularizer_options import Regularizer
from isoscope.core.formatting import short


class Method(NamedTuple):
    """A regularizer in words, for pages and plans."""

    name: str
    formula: str
    of: str
    """What the formula is taken of."""
    help: str
    citation: str


METHODS = {
    Regularizer.ISTAR: Method(
        "I-STAR",
        "λ (1 − IsoScore★)",
        "of the batches",
        "Makes the variance of all layers’ tokens more even over directions. A batch has few tokens, so their "
        "covariance is shrunk by ζ to that of many more.",
        "Rudman and Eickhoff 2024",
    ),
    Regularizer.UNBIASED: Method(
        "bias-corrected I-STAR",
        "λ (1 − bias-corrected IsoScore)",
        "of the batches, averaged over layers",
        "The same of one vector for each text, layer by layer, with a score that few rows do not bias. It has no ζ.",
        "in neither paper",
    ),
    Regularizer.COSREG: Method(
        "CosReg",
        "λ · mean cosine",
        "of the batches",
        "Lowers the cosines between the last layer’s tokens. That moves their mean to 0 more than it evens out their "
        "variance.",
        "Gao et al. 2019, on the tokens of a batch as in Rudman and Eickhoff 2024",
    ),
    Regularizer.ENTROPY: Method(
        "persistent entropy",
        "−λ · H of the bars",
        "of the batches",
        "Makes the gaps between the texts of a batch, each one vector of the last layer, as even as it can.",
        "Kudriashov et al. 2025",
    ),
    Regularizer.SPECTRUM: Method(
        "spectrum control",
        "λ (1 − evenness of the singular values)",
        "of the input embedding matrix",
        "Evens out the singular values of the input embeddings, whatever the texts. The paper trains factors of that "
        "matrix instead.",
        "after Wang et al. 2020",
    ),
}
"""All regularizers but none, in the order in which they are offered."""

NAMES: Mapping[Regularizer, str] = {
    Regularizer.NONE: "none",
    **{regularizer: method.name for regularizer, method in METHODS.items()},
}


def added_words(weights: Mapping[str, float]) -> str:
    """Regularizers with their λ: CosReg 1; I-STAR 0.5; none."""
    named = [f"{NAMES[one]} {short(weights[one])}" for one in Regularizer if one in weights]
    return "; ".join(named) or NAMES[Regularizer.NONE]


def coordinates(regularizer: Regularizer, lam: float) -> str:
    """Which run of a sweep it is, but for seed and grid: I-STAR, λ = −1."""
    return f"{'baseline' if regularizer is Regularizer.NONE else NAMES[regularizer]}, λ = {short(lam)}"
