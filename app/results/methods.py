"""What a run adds to its task loss, in words."""

from app.db.regularizer_options import Bars, Regularizer
from app.db.reported_config import AnyRunConfig
from isoscope.core.formatting import short
from isotropy.catalog import REGULARIZERS


def penalty_words(config: AnyRunConfig) -> str:
    """What a run adds to its task loss, with the settings that matter; of several, each with its λ."""
    return ", and ".join(
        f"{REGULARIZERS[name].term} {REGULARIZERS[name].of} at λ = {short(lam)}{_settings(name, config)}"
        + (" (beside it)" if name is not config.regularizer else "")
        for name, lam in weights(config)
    )


def weights(config: AnyRunConfig) -> list[tuple[Regularizer, float]]:
    """The regularizers of a run with their λ, first the one that the sweep is about."""
    return sorted(config.weights.items(), key=lambda one: one[0] is not config.regularizer)


def _settings(name: Regularizer, config: AnyRunConfig) -> str:
    options = REGULARIZERS[name].options
    if "zeta" in options and config.zeta is not None:
        return f" and ζ = {short(config.zeta)}"
    if "entropy_bars" in options and config.entropy_bars is not None:
        bars = "the prominent bars" if config.entropy_bars is Bars.PROMINENT else "all bars"
        drawn = config.entropy_cluster_weight
        return f", over {bars}" + (f", and {short(drawn)} times the mean length of the others" if drawn else "")
    return ""
