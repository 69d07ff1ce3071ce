"""What metrics of tasks and measures of layers are called, and where metrics lie."""

from collections.abc import Mapping
from typing import NamedTuple

from isoscope.core.formatting import short, starred
from isoscope.core.task import METRIC_TITLES, Metric
from isotropy.catalog import MEASURES


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


SHARES = tuple(f"anisotropy_{points}_{k}" for points in ("raw", "centred") for k in (1, 2, 3))
WATCHED = ("isoscore_star", "isoscore_unbiased", "mean_cosine", *SHARES)
"""Measured on a few validation rows while a run trains; the first is shown unless another is chosen."""
OF_SENTENCES = ("twonn", "persistent_entropy", "silhouette")
"""Measured at the end on the vectors of whole texts; all others on tokens."""


def slug_of(measure: str) -> str:
    """The measure of the catalogue that one by layer is; of a k-th anisotropy, that of all k."""
    return measure.rsplit("_", 1)[0] if measure in SHARES else measure


def title_of(measure: str) -> str:
    """Its name, with its k: k-th anisotropy, raw, k = 1. One that the catalogue lacks keeps its slug."""
    known = MEASURES.get(slug_of(measure))
    name = starred(known.name) if known else measure
    return f"{name}, k = {measure[-1]}" if measure in SHARES else name


def level_of(measure: str) -> str:
    """What is said of a measure while a run trains whose level the few tokens lower; empty of all others."""
    return ", at ζ = 0: low for few tokens, so read the trend, not the level" if measure == "isoscore_star" else ""
