"""The tasks of both papers in a reproduction: files, columns and sweeps."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from isoscope.core.task import Metric, TaskKind
from isotropy.catalog import Regularizer

MODEL = "all-MiniLM-L6-v2"
ZETA = 0.2
SENTENCE, PAIR = ("sentence",), ("sentence1", "sentence2")
TSV = ("train.tsv", "validation.tsv")
STEERING, OTHERS, CHECK = "steering", "others", "check"


class Task(NamedTuple):
    """A data set, and the columns and metric of its task."""

    texts: tuple[str, ...]
    metric: Metric
    kind: TaskKind = TaskKind.CLASSIFICATION
    label: str = "label"
    files: tuple[str, str] = TSV  # Train and validation files in the folder named after the task
    times: int = 1  # Multiple of the budget's steps and training rows


TASKS = {
    # Shorter runs predict only the larger class, so their correlation is 0.
    "cola": Task(SENTENCE, Metric.MATTHEWS, times=4),
    "mrpc": Task(PAIR, Metric.ACCURACY),
    "rte": Task(PAIR, Metric.ACCURACY),
    "stsb": Task(PAIR, Metric.PEARSON, TaskKind.REGRESSION),
    "sst2": Task(SENTENCE, Metric.ACCURACY, files=("train.parquet", "validation.tsv")),
    "sst5": Task(SENTENCE, Metric.ACCURACY),
    "squad": Task(
        ("question", "context"),
        Metric.WORD_F1,
        TaskKind.SPAN,
        label="answers",
        files=("train.jsonl.gz", "validation.jsonl.gz"),
    ),
}


def _option(default: Any, help_: str) -> Any:
    return field(default=default, metadata={"help": help_})


@dataclass(frozen=True)
class Budget:
    """Training lengths, rows, seeds and lambdas of a reproduction."""

    max_steps: int = _option(60, "optimizer steps of a run")
    batch_size: int = _option(16, "rows of a step")
    learning_rate: float = _option(1e-4, "the same in all steps")
    train_rows: int = _option(1000, "training rows, drawn by a fixed seed")
    validation_rows: int = _option(200, "validation rows, drawn by a fixed seed")
    max_length: int = _option(64, "tokens of a text or pair")
    span_length: int = _option(192, "tokens of a window of SQuAD")
    seeds: tuple[int, ...] = _option((0,), "one run of everything for each")
    lambdas: tuple[float, ...] = _option((-3.0, -1.0, 1.0, 3.0), "of the long sweeps; -1 and 1 are always there")
    sweeps: tuple[str, ...] = _option(
        ("sst2", "mrpc", "stsb", "squad"), "tasks with a long sweep: one each of single texts, pairs, scores and spans"
    )


def files_of(data: Path, name: str) -> tuple[Path, Path]:
    """Return the paths of the train and validation files of a task."""
    train, validation = (data / name / file for file in TASKS[name].files)
    return train, validation


def requests_for(name: str, budget: Budget) -> dict[str, dict[str, Any]]:
    """Return the sweep requests of a task for the API by part, without the data set.

    Steering: both forms of I-STAR at lambda = -1 and 1, and at further lambdas if the task has a long sweep. Others:
    the other penalties at lambda = 1. Check: a plain run on all validation rows whose model is exported to recompute
    its metrics; none for spans, whose metrics depend on windows and candidates that are hard to recompute.
    """
    task = TASKS[name]
    is_span = task.kind is TaskKind.SPAN
    shared = {
        "model": MODEL,
        "task": task.kind,
        "text_columns": task.texts,
        "label_column": task.label,
        "metric": task.metric,
        "epochs": None,
        "max_steps": task.times * budget.max_steps,
        "batch_size": budget.batch_size,
        "learning_rate": budget.learning_rate,
        "train_rows": task.times * budget.train_rows,
        "validation_rows": budget.validation_rows,
        "max_length": budget.span_length if is_span else budget.max_length,
        "stride": budget.span_length // 3,
        "zetas": [ZETA],
        "entropy_by_label": task.kind is TaskKind.CLASSIFICATION,
    }
    requests = {
        STEERING: shared
        | {
            "regularizers": [Regularizer.ISTAR, Regularizer.UNBIASED],
            "lambdas": sorted({-1.0, 1.0, *(budget.lambdas if name in budget.sweeps else ())}),
            "seeds": budget.seeds,
        },
        OTHERS: shared
        | {"regularizers": [Regularizer.COSREG, Regularizer.ENTROPY], "lambdas": [1.0], "seeds": budget.seeds},
    }
    if not is_span:
        requests[CHECK] = shared | {
            "regularizers": [Regularizer.NONE],
            "lambdas": [0.0],
            "seeds": budget.seeds[:1],
            "validation_rows": None,
            "export": True,
        }
    return {part: request | {"name": _name(name, part, request)} for part, request in requests.items()}


def _name(task: str, part: str, request: dict[str, Any]) -> str:
    """Return the unique name of a sweep, with a hash of its settings."""
    settings = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
    return f"Reproduction: {task}, {part} ({settings[:8]})"
