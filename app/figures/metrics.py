"""How the metrics of tasks are called, and where they lie."""

from collections.abc import Mapping
from typing import NamedTuple

from app.db.task import METRIC_TITLES, Metric
from app.numerals import short


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
