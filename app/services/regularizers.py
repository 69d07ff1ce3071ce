"""What each regularizer is called, what it adds to the loss, and where it is from."""

from typing import NamedTuple

from app.db.penalty import Regularizer


class Method(NamedTuple):
    """A regularizer in words, for pages and plans."""

    name: str
    formula: str
    help: str
    citation: str


METHODS = {
    Regularizer.ISTAR: Method(
        "I-STAR",
        "λ (1 − IsoScore★)",
        "Of the tokens of all layers, their covariance drawn by ζ to one of many more tokens.",
        "Rudman and Eickhoff 2024",
    ),
    Regularizer.UNBIASED: Method(
        "bias-corrected I-STAR",
        "λ (1 − unbiased IsoScore)",
        "Of one vector for each text and layer, averaged over layers; no ζ and no shrinkage covariance.",
        "in neither paper",
    ),
    Regularizer.COSREG: Method(
        "CosReg",
        "λ · mean cosine",
        "Of the tokens of the last layer. It moves their mean more than their covariance.",
        "Gao et al. 2019, on the tokens of a batch as in Rudman and Eickhoff 2024",
    ),
    Regularizer.ENTROPY: Method(
        "persistent entropy",
        "−λ · H of the bars",
        "Of the last layer’s text vectors in a batch: groups of them are drawn to equal distances.",
        "Kudriashov et al. 2025",
    ),
    Regularizer.SPECTRUM: Method(
        "spectrum control",
        "λ (1 − evenness of the singular values)",
        "Of the input embedding matrix, whatever the texts. The paper trains factors of it instead.",
        "after Wang et al. 2020",
    ),
}
"""All regularizers but none, in the order in which they are offered."""
