"""Kinds of tasks, and the metrics of each."""

from enum import StrEnum


class TaskKind(StrEnum):
    """Kinds of tasks by what the model predicts: a class, a number, or a span of the second text."""

    CLASSIFICATION = "classification"
    REGRESSION = "regression"
    SPAN = "span"


class Metric(StrEnum):
    """Measures of how well a model solves a task."""

    ACCURACY = "accuracy"
    F1 = "f1"
    MATTHEWS = "matthews"
    PEARSON = "pearson"
    SPEARMAN = "spearman"
    EXACT_MATCH = "exact_match"
    WORD_F1 = "word_f1"


METRIC_TITLES: dict[Metric, str] = {
    Metric.ACCURACY: "Accuracy",
    Metric.F1: "F1",
    Metric.MATTHEWS: "Matthews correlation",
    Metric.PEARSON: "Pearson correlation",
    Metric.SPEARMAN: "Spearman correlation",
    Metric.EXACT_MATCH: "Exact match",
    Metric.WORD_F1: "F1 of words",
}

# Forms propose the first metric of each kind of task.
METRICS: dict[TaskKind, tuple[Metric, ...]] = {
    TaskKind.CLASSIFICATION: (Metric.ACCURACY, Metric.F1, Metric.MATTHEWS),
    TaskKind.REGRESSION: (Metric.PEARSON, Metric.SPEARMAN),
    TaskKind.SPAN: (Metric.WORD_F1, Metric.EXACT_MATCH),
}

SPLIT_STEMS = frozenset(("train", "training", "validation", "valid", "val", "dev", "test"))
"""Names of files, without suffix, that name a split and not the data set."""
