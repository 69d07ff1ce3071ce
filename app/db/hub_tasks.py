"""The tasks of both papers as data sets of the Hugging Face Hub at pinned revisions, which need no upload.

Sizes and metrics are those of Wang et al. 2019, "GLUE: A Multi-Task Benchmark and Analysis Platform for Natural
Language Understanding", of Socher et al. 2013 for SST-5, and of Rajpurkar et al. 2016 for SQuAD.
"""

from enum import StrEnum
from typing import NamedTuple

from isoscope.core.task import Metric, TaskKind
from isoscope.files.columns import Column, ColumnKind

LABEL_KINDS = {
    TaskKind.CLASSIFICATION: ColumnKind.LABEL,
    TaskKind.REGRESSION: ColumnKind.NUMBER,
    TaskKind.SPAN: ColumnKind.SPAN,
}
SENTENCE, SENTENCE_PAIR, QUESTION_PAIR = ("sentence",), ("sentence1", "sentence2"), ("question1", "question2")
SENTIMENT = ("negative", "positive")
FIVE_SENTIMENTS = ("very negative", "negative", "neutral", "positive", "very positive")
ENTAILMENT = ("entailment", "not_entailment")


class HubName(StrEnum):
    """Names of the tasks in requests and in the database."""

    SST2 = "sst2"
    QNLI = "qnli"
    RTE = "rte"
    MRPC = "mrpc"
    QQP = "qqp"
    COLA = "cola"
    STSB = "stsb"
    SST5 = "sst5"
    SQUAD = "squad"


class HubSource(NamedTuple):
    """A data set on the Hub at a fixed revision."""

    repo: str
    config_name: str | None
    # Commit hash.
    revision: str


class HubTask(NamedTuple):
    """Published facts about a task."""

    title: str
    source: HubSource
    text_columns: tuple[str, ...]
    # Class names in the order of their numbers.
    labels: tuple[str, ...]
    n_train: int
    n_validation: int
    metric: Metric = Metric.ACCURACY
    task: TaskKind = TaskKind.CLASSIFICATION
    label_column: str = "label"
    # Labeled test rows; None if the labels are held back for a leaderboard.
    n_test: int | None = None

    def columns(self) -> list[Column]:
        """Return descriptions of the columns as if the data set had been uploaded."""
        labels_by_name: dict[str, tuple[str, ...]] = dict.fromkeys(self.text_columns, ())
        labels_by_name[self.label_column] = self.labels
        return [
            Column(
                name=name,
                kind=LABEL_KINDS[self.task] if name == self.label_column else ColumnKind.TEXT,
                n_distinct=len(labels) or 1001,  # stands for more than 1,000
                examples=list(labels[:3]),
                values=list(labels) or None,
                unseen=[],
                not_number=labels[0] if labels else None,
                n_missing_train=0,
                n_missing_validation=0,
            )
            for name, labels in labels_by_name.items()
        ]


def _glue_source(config_name: str) -> HubSource:
    return HubSource("nyu-mll/glue", config_name, "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c")


SST5 = HubSource("SetFit/sst5", None, "e51bdcd8cd3a30da231967c1a249ba59361279a3")
SQUAD = HubSource("rajpurkar/squad", "plain_text", "7b6d24c440a36b6815f21b70d25016731768db1f")

TASKS = {
    HubName.SST2: HubTask("GLUE SST-2", _glue_source("sst2"), SENTENCE, SENTIMENT, 67349, 872),
    HubName.QNLI: HubTask("GLUE QNLI", _glue_source("qnli"), ("question", "sentence"), ENTAILMENT, 104743, 5463),
    HubName.RTE: HubTask("GLUE RTE", _glue_source("rte"), SENTENCE_PAIR, ENTAILMENT, 2490, 277),
    HubName.MRPC: HubTask(
        "GLUE MRPC", _glue_source("mrpc"), SENTENCE_PAIR, ("not_equivalent", "equivalent"), 3668, 408, n_test=1725
    ),
    HubName.QQP: HubTask("GLUE QQP", _glue_source("qqp"), QUESTION_PAIR, ("not_duplicate", "duplicate"), 363846, 40430),
    HubName.COLA: HubTask(
        "GLUE CoLA", _glue_source("cola"), SENTENCE, ("unacceptable", "acceptable"), 8551, 1043, Metric.MATTHEWS
    ),
    HubName.STSB: HubTask(
        "GLUE STS-B", _glue_source("stsb"), SENTENCE_PAIR, (), 5749, 1500, Metric.PEARSON, TaskKind.REGRESSION
    ),
    # This repository has numeric labels; a text column holds their names.
    HubName.SST5: HubTask(
        "SST-5", SST5, ("text",), FIVE_SENTIMENTS, 8544, 1101, label_column="label_text", n_test=2210
    ),
    HubName.SQUAD: HubTask(
        "SQuAD 1.1", SQUAD, ("question", "context"), (), 87599, 10570, Metric.WORD_F1, TaskKind.SPAN, "answers"
    ),
}
