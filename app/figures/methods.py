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
    Regularizer.SPECTRUM: "λ times the spectrum penalty of the input embedding matrix",
}
"""What is added; of each more isotropy makes it less."""


def penalty_words(config: RunConfig) -> str:
    """What a run adds to its task loss, with the settings that matter; of several, each with its λ."""
    return ", and ".join(
        f"{ADDED[name]} at λ = {short(lam)}{_settings(name, config)}"
        + (" (beside it)" if name is not config.regularizer else "")
        for name, lam in weights(config)
    )


def weights(config: RunConfig) -> list[tuple[Regularizer, float]]:
    """The regularizers of a run with their λ, first the one that the sweep is about."""
    return sorted(config.weights.items(), key=lambda one: one[0] is not config.regularizer)


def _settings(name: Regularizer, config: RunConfig) -> str:
    if name is Regularizer.ISTAR:
        return f" and ζ = {short(config.zeta)}"
    if name is Regularizer.ENTROPY:
        bars = "the prominent bars" if config.entropy_bars is Bars.PROMINENT else "all bars"
        drawn = config.entropy_cluster_weight
        return f", over {bars}" + (f", and {short(drawn)} times the mean length of the others" if drawn else "")
    return ""
