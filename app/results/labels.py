"""Names of metrics, measures and penalties of runs."""

from collections.abc import Mapping
from typing import NamedTuple

from app.db.options.regularization import Bars
from app.db.reported_config import AnyRunConfig
from isoscope.core.formatting import short, starred
from isoscope.core.task import METRIC_TITLES, Metric
from isotropy.catalog import MEASURES, REGULARIZERS, Regularizer, measures_in


class MetricAxis(NamedTuple):
    """The title of a metric, and its smallest and largest possible value."""

    title: str
    low: int
    high: int = 1

    @property
    def range(self) -> str:
        return f"{short(self.low)} to {short(self.high)}"


SIGNED_METRICS = frozenset({Metric.MATTHEWS, Metric.PEARSON, Metric.SPEARMAN})
METRIC_AXES: Mapping[str, MetricAxis] = {
    metric: MetricAxis(title, -1 if metric in SIGNED_METRICS else 0) for metric, title in METRIC_TITLES.items()
}
# The measure that is compared with performance.
ISOTROPY = "isoscore_star"
# Measures of the catalog by the names that layers of runs use.
LAYER_MEASURES = {name: measure for measure in MEASURES.values() for name in measure.value_names}
ANISOTROPY_MEASURES = (*MEASURES["anisotropy_raw"].value_names, *MEASURES["anisotropy_centred"].value_names)
# Measured on a few validation rows while a run trains, with isotropy first, which is drawn unless another is chosen.
TRAINING_MEASURES = tuple(
    sorted(
        (name for measure in measures_in("training") for name in measure.value_names), key=lambda name: name != ISOTROPY
    )
)
# Measured at the end on the vectors of whole texts; all others on tokens.
SENTENCE_MEASURES = tuple(measure.slug for measure in measures_in("results"))


def slug_of(measure: str) -> str:
    """Return the catalog's slug of a measure by layer, the same for k-th anisotropies of all k; its name if unknown."""
    return LAYER_MEASURES[measure].slug if measure in LAYER_MEASURES else measure


def title_of(measure: str) -> str:
    """Return a measure's title, with its k if it has one ("k-th anisotropy, raw, k = 1"); its name if unknown."""
    record = LAYER_MEASURES.get(measure)
    name = starred(record.name) if record else measure
    return f"{name}, k = {measure.rpartition('_')[2]}" if record and record.leading_values else name


def bounds_of(measure: str) -> tuple[float, float]:
    bounds: tuple[float, float] = MEASURES[slug_of(measure)].widest_bounds
    return bounds


def caution_of(measure: str) -> str:
    """Return ", " and a caution about reading a measure while a run trains; empty for most measures."""
    caution = LAYER_MEASURES[measure].training_caution if measure in LAYER_MEASURES else ""
    return f", {caution}" if caution else ""


def uses_text_vectors(measure: str) -> bool:
    """Return whether a measure uses one vector per text instead of tokens."""
    return measure in LAYER_MEASURES and LAYER_MEASURES[measure].per_text


def list_weights(config: AnyRunConfig) -> list[tuple[Regularizer, float]]:
    """Return the penalties of a run, each with its λ, starting with the run's regularizer."""
    return sorted(config.penalty_weights.items(), key=lambda weight: weight[0] is not config.regularizer)


def describe_penalty(config: AnyRunConfig) -> str:
    """Describe the penalties that a run adds to its task loss, each with its λ and the options that apply to it."""
    penalties = []
    for regularizer, lam in list_weights(config):
        penalty = REGULARIZERS[regularizer]
        description = f"{penalty.term} {penalty.computed_on} at λ = {short(lam)}"
        if "zeta" in penalty.options and config.zeta is not None:
            description += f" and ζ = {short(config.zeta)}"
        elif "entropy_bars" in penalty.options and config.entropy_bars is not None:
            description += f", over {'the prominent bars' if config.entropy_bars is Bars.PROMINENT else 'all bars'}"
            if weight := config.entropy_cluster_weight:
                description += f", and {short(weight)} times the mean length of the others"
        penalties.append(description if regularizer is config.regularizer else f"{description} (in addition)")
    return ", and ".join(penalties)
