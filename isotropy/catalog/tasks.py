"""Tasks that judge vectors: kinds of ground truth, their metrics, and similarities of vectors."""

from dataclasses import dataclass
from enum import StrEnum

FEWEST_GROUPS = 25
"""Minimum number of groups of about equal size: 5 fit, 10 choose, 10 report. With fewer, intervals are too wide."""


class TruthKind(StrEnum):
    """Kinds of ground truth; compression needs none."""

    QUERIES = "queries"
    PAIRS = "pairs"
    LABELS = "labels"
    COMPRESSION = "compression"


class Similarity(StrEnum):
    """The similarity by which two vectors are compared."""

    COSINE = "cosine"
    DOT = "dot"
    EUCLIDEAN = "euclidean"


# Name of each similarity in sentences.
SIMILARITIES = {Similarity.EUCLIDEAN: "Euclidean distance", Similarity.COSINE: "cosine", Similarity.DOT: "dot product"}

# Column headings for the distance or similarity of a neighbor.
NEAR_COLUMNS = {Similarity.EUCLIDEAN: "Distance", Similarity.COSINE: "Cosine", Similarity.DOT: "Dot product"}


@dataclass(frozen=True)
class TaskEntry:
    """A kind of task: title, name of its units, and metrics with the default first."""

    title: str
    units: str
    metrics: tuple[str, ...]


TASKS = {
    TruthKind.QUERIES: TaskEntry("Relevant documents", "queries", ("ndcg@10", "recall@10", "mrr@10")),
    TruthKind.PAIRS: TaskEntry("Scored pairs", "pairs", ("spearman",)),
    TruthKind.LABELS: TaskEntry("Labels", "labeled rows", ("knn_accuracy", "probe_accuracy")),
    TruthKind.COMPRESSION: TaskEntry("Compression only", "queries", ("overlap@10",)),
}

# Name of each metric in sentences.
METRICS = {
    "ndcg@10": "nDCG@10",
    "recall@10": "recall@10",
    "mrr@10": "MRR@10",
    "overlap@10": "overlap@10 with exact search",
    "spearman": "Spearman correlation",
    "knn_accuracy": "k-NN accuracy",
    "probe_accuracy": "probe accuracy",
}
