"""How the metrics of tasks are called, and where they lie."""

from collections.abc import Mapping
from typing import NamedTuple

from app.db.task import Metric
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


SCALES: Mapping[str, MetricRange] = {
    Metric.ACCURACY: MetricRange("Accuracy", 0),
    Metric.F1: MetricRange("F1", 0),
    Metric.MATTHEWS: MetricRange("Matthews correlation", -1),
    Metric.PEARSON: MetricRange("Pearson correlation", -1),
    Metric.SPEARMAN: MetricRange("Spearman correlation", -1),
    Metric.EXACT_MATCH: MetricRange("Exact match", 0),
    Metric.WORD_F1: MetricRange("F1 of words", 0),
}
"""By the metric's name in a configuration."""
