"""What metrics of tasks and measures of layers are called, and where metrics lie."""

from collections.abc import Mapping
from typing import NamedTuple

from isoscope.core.formatting import short, starred
from isoscope.core.task import METRIC_TITLES, Metric
from isotropy.catalog import MEASURES, measures_in


class MetricRange(NamedTuple):
    """The name of a metric, and the least and the most it can be."""

    title: str
    low: int
    high: int = 1

    @property
    def range(self) -> str:
        """Both ends in words."""
        return f"{short(self.low)} to {short(self.high)}"


BELOW_ZERO = frozenset({Metric.MATTHEWS, Metric.PEARSON, Metric.SPEARMAN})
SCALES: Mapping[str, MetricRange] = {
    metric: MetricRange(title, -1 if metric in BELOW_ZERO else 0) for metric, title in METRIC_TITLES.items()
}
"""By the metric's name in a configuration."""


ISOTROPY = "isoscore_star"
"""The measure by which runs are compared with their performance."""
TAKEN = {name: measure for measure in MEASURES.values() for name in measure.taken}
"""Measures of the catalogue by the names under which layers of runs have them."""
SHARES = (*MEASURES["anisotropy_raw"].taken, *MEASURES["anisotropy_centred"].taken)
"""Of the figure of shares late in training."""
WATCHED = tuple(
    sorted((name for one in measures_in("training") for name in one.taken), key=lambda name: name != ISOTROPY)
)
"""Measured on a few validation rows while a run trains; the first is shown unless another is chosen."""
OF_SENTENCES = tuple(one.slug for one in measures_in("results"))
"""Measured at the end on the vectors of whole texts; all others on tokens."""


def slug_of(measure: str) -> str:
    """The measure of the catalogue that one by layer is; of a k-th anisotropy, that of all k."""
    return TAKEN[measure].slug if measure in TAKEN else measure


def title_of(measure: str) -> str:
    """Its name, with its k: k-th anisotropy, raw, k = 1. One that the catalogue lacks keeps its slug."""
    known = TAKEN.get(measure)
    name = starred(known.name) if known else measure
    return f"{name}, k = {measure.rpartition('_')[2]}" if known and known.leading else name


def level_of(measure: str) -> str:
    """What is said of a measure while a run trains, behind a comma; empty of most."""
    caution = TAKEN[measure].while_training if measure in TAKEN else ""
    return f", {caution}" if caution else ""


def is_of_texts(measure: str) -> bool:
    """Whether layers of runs are measured on one vector a text, and not on tokens."""
    return measure in TAKEN and TAKEN[measure].of_texts
