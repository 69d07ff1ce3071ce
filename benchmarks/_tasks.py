"""The tasks of a reproduction: files, columns and sweeps."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from app.db.options.training import Precision
from isoscope.core.task import Metric, TaskKind

MODEL = "all-MiniLM-L6-v2"
SENTENCE, PAIR = ("sentence",), ("sentence1", "sentence2")
TSV = ("train.tsv", "validation.tsv")


class Task(NamedTuple):
    """A data set, and the columns and metric of its task."""

    texts: tuple[str, ...]
    metric: Metric
    kind: TaskKind = TaskKind.CLASSIFICATION
    label: str = "label"
    files: tuple[str, str] = TSV  # Train and validation files in the folder named after the task


TASKS = {
    "cola": Task(SENTENCE, Metric.MATTHEWS),
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
    """Models, tasks, settings, seeds and training lengths of a reproduction."""

    models: tuple[str, ...] = _option((MODEL,), "names of models, as the sweep form shows them")
    tasks: tuple[str, ...] = _option(tuple(TASKS), "tasks")
    lambdas: tuple[float, ...] = _option((-5.0, -1.0, -0.1, 0.1, 1.0, 5.0), "of I-STAR, beside 0")
    seeds: tuple[int, ...] = _option((0, 1, 2, 3, 4), "seeds of each setting")
    zeta: float = _option(0.2, "shrinkage of the covariance")
    epochs: int = _option(3, "epochs")
    batch_size: int = _option(32, "batch size")
    learning_rate: float = _option(5e-5, "constant learning rate")
    train_rows: int = _option(10_000, "maximum training rows, drawn by a fixed seed")
    validation_rows: int = _option(2_000, "maximum validation rows, drawn by a fixed seed")
    max_length: int = _option(128, "tokens of a text or pair")
    span_length: int = _option(256, "tokens of a window of SQuAD")
    precision: str = _option(Precision.FP32.value, "training precision")


def files_of(data: Path, name: str) -> tuple[Path, Path]:
    """Return the paths of the train and validation files of a task."""
    train, validation = (data / name / file for file in TASKS[name].files)
    return train, validation


def request_sweep(budget: Budget, model: str, name: str, seed: int) -> dict[str, Any]:
    """Return the sweep of a model on a task with one seed, for the API, without the data set.

    Its name holds a hash of all settings, so that a sweep is found by its name.
    """
    task = TASKS[name]
    request = {
        "model": model,
        "task": task.kind,
        "text_columns": task.texts,
        "label_column": task.label,
        "metric": task.metric,
        "regularizers": ["istar"],
        "lambdas": budget.lambdas,
        "zetas": [budget.zeta],
        "seeds": [seed],
        "epochs": budget.epochs,
        "batch_size": budget.batch_size,
        "learning_rate": budget.learning_rate,
        "train_rows": budget.train_rows,
        "validation_rows": budget.validation_rows,
        "max_length": budget.span_length if task.kind is TaskKind.SPAN else budget.max_length,
        "stride": budget.span_length // 3,
        "precision": budget.precision,
    }
    settings = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
    return request | {"name": f"Reproduction: {model}, {name}, seed {seed} ({settings[:8]})"}
