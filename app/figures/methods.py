"""How regularizers are called, and what each adds to the loss."""

from collections.abc import Mapping

from app.db.config import RunConfig
from app.db.penalty import Bars, Regularizer
from app.numerals import short

NAMES: Mapping[Regularizer, str] = {
    Regularizer.NONE: "none",
    Regularizer.ISTAR: "I-STAR",
    Regularizer.UNBIASED: "bias-corrected I-STAR",
    Regularizer.COSREG: "CosReg",
    Regularizer.ENTROPY: "persistent entropy",
    Regularizer.SPECTRUM: "spectrum control",
}

ADDED: Mapping[Regularizer, str] = {
    Regularizer.ISTAR: "λ (1 − IsoScore★) of the batches",
    Regularizer.UNBIASED: "λ (1 − bias-corrected IsoScore) of the batches, averaged over layers",
    Regularizer.COSREG: "λ times the mean cosine of the batches",
    Regularizer.ENTROPY: "−λ times the persistent entropy of the batches",
    Regularizer.SPECTRUM: "λ times what spectrum control finds of the input embedding matrix",
}
"""What is added; of each more isotropy makes it less."""


def penalty_words(config: RunConfig) -> str:
    """What a run adds to its task loss, with the settings that matter; of several, each with its λ."""
    return ", and ".join(
        f"{ADDED[name]} at λ = {short(lam)}{_settings(name, config)}"
        + (" (beside it)" if _beside(name, config) else "")
        for name, lam in sorted(config.weights.items(), key=lambda one: _beside(one[0], config))
    )


def _beside(name: Regularizer, config: RunConfig) -> bool:
    """Whether it accompanies the one that the sweep is about."""
    return name is not config.regularizer


def _settings(name: Regularizer, config: RunConfig) -> str:
    if name is Regularizer.ISTAR:
        return f" and ζ = {short(config.zeta)}"
    if name is Regularizer.ENTROPY:
        bars = "the prominent bars" if config.entropy_bars is Bars.PROMINENT else "all bars"
        drawn = config.entropy_cluster_weight
        return f", over {bars}" + (f", and {short(drawn)} times the mean length of the others" if drawn else "")
    return ""
