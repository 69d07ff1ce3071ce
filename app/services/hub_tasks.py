"""The GLUE tasks that can be named instead of uploaded: sentence and pair classification.

Sizes and labels are those of Wang et al. 2019, "GLUE: A Multi-Task Benchmark and Analysis Platform for Natural
Language Understanding", as in the Hub's `nyu-mll/glue`.
"""

from enum import StrEnum
from typing import NamedTuple

from app.db.task import Metric
from app.formats.tables import Column, ColumnKind


class HubName(StrEnum):
    """The Hub's names of the tasks."""

    COLA = "cola"
    MRPC = "mrpc"
    QNLI = "qnli"
    QQP = "qqp"
    RTE = "rte"
    SST2 = "sst2"


class HubTask(NamedTuple):
    """What is published about a task."""

    title: str
    text_columns: tuple[str, ...]
    labels: tuple[str, ...]
    n_train: int
    n_validation: int
    metric: Metric = Metric.ACCURACY

    def columns(self) -> list[Column]:
        """The columns, described as those of an uploaded file are."""
        texts = [_column(name, ColumnKind.TEXT, None) for name in self.text_columns]
        return [*texts, _column("label", ColumnKind.LABEL, list(self.labels))]


def _column(name: str, kind: ColumnKind, values: list[str] | None) -> Column:
    return Column(
        name=name,
        kind=kind,
        n_distinct=len(values) if values else 1001,
        examples=(values or [])[:3],
        values=values,
        unseen=[],
        n_missing_train=0,
        n_missing_validation=0,
    )


SENTENCE, PAIR = ("sentence",), ("sentence1", "sentence2")
TASKS = {
    HubName.COLA: HubTask("CoLA", SENTENCE, ("unacceptable", "acceptable"), 8551, 1043, Metric.MATTHEWS),
    HubName.MRPC: HubTask("MRPC", PAIR, ("not_equivalent", "equivalent"), 3668, 408),
    HubName.QNLI: HubTask("QNLI", ("question", "sentence"), ("entailment", "not_entailment"), 104743, 5463),
    HubName.QQP: HubTask("QQP", ("question1", "question2"), ("not_duplicate", "duplicate"), 363846, 40430),
    HubName.RTE: HubTask("RTE", PAIR, ("entailment", "not_entailment"), 2490, 277),
    HubName.SST2: HubTask("SST-2", SENTENCE, ("negative", "positive"), 67349, 872),
}
