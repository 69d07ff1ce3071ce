"""The words of the sweep form: what its fields are called, and the options of those that are chosen from."""

from app.db.config import Checkpoint, Optimizer, Precision, Schedule, Selection
from app.db.regularizer_options import READERS, Bars, Points, Refresh
from app.db.task import METRICS, Metric, TaskKind
from app.services.grid import GRID_FIELDS

LABELS = {
    "dataset_id": "Data set",
    "task": "Task",
    "text_columns": "Text column",
    "label_column": "Label column",
    "metric": "Performance",
    "model": "Model",
    "name": "Name",
    "lambdas": "Tuning parameters λ",
    "zetas": "Shrinkage ζ",
    "seeds": "Seeds",
    "layers": "Layers",
    "points": "Vectors",
    "include_padding": "Count padding as tokens",
    "token_fraction": "Part of the tokens",
    "shrinkage_points": "Tokens behind it",
    "shrinkage_refresh": "Shrinkage covariance",
    "shrinkage_every": "Steps between estimates",
    "shrinkage_momentum": "Kept at each step",
    "entropy_bars": "Bars",
    "entropy_by_label": "Barcode of",
    "entropy_cluster_weight": "Cluster weight",
    "epochs": "Epochs",
    "max_steps": "Or steps",
    "batch_size": "Batch size",
    "accumulation": "Accumulation",
    "optimizer": "Optimizer",
    "learning_rate": "Learning rate",
    "warmup": "Warm-up",
    "schedule": "Schedule",
    "weight_decay": "Weight decay",
    "precision": "Precision",
    "gradient_checkpointing": "Gradient checkpointing",
    "processes": "Processes",
    "max_length": "Longest text",
    "stride": "Stride",
    "train_rows": "Train rows",
    "validation_rows": "Validation rows",
    "probe_every": "Steps between looks",
    "evaluation_zeta": "Evaluation ζ",
    "checkpoint": "Weights evaluated",
    "selection": "Selection rows",
    "evaluate_every": "Steps between evaluations",
    "patience": "Patience",
    "export": "Keep the trained models",
}

METRIC_WORDS = {
    Metric.ACCURACY: "accuracy",
    Metric.F1: "F1",
    Metric.MATTHEWS: "Matthews correlation",
    Metric.PEARSON: "Pearson correlation",
    Metric.SPEARMAN: "Spearman correlation",
    Metric.EXACT_MATCH: "exact match",
    Metric.WORD_F1: "F1 of the words",
}

WORDS: dict[str, dict[str, str]] = {
    "task": {
        TaskKind.CLASSIFICATION: "classification: a class",
        TaskKind.REGRESSION: "regression: a number",
        TaskKind.SPAN: "span: an answer in the second text",
    },
    "points": {
        "": "those of its paper",
        Points.TOKENS: "all tokens",
        Points.SENTENCE: "the token that stands for the text",
        Points.MEAN: "the mean of each text’s tokens",
    },
    "shrinkage_refresh": {
        Refresh.EPOCH: "anew at every epoch",
        Refresh.STEPS: "anew every so many steps",
        Refresh.AVERAGE: "moving average of the batches",
    },
    "entropy_bars": {Bars.PROMINENT: "prominent, of separate groups", Bars.ALL: "all"},
    "entropy_by_label": {"true": "each class of a batch", "false": "the whole batch"},
    "optimizer": {Optimizer.ADAMW: "AdamW", Optimizer.ADAM: "Adam"},
    "schedule": {
        Schedule.CONSTANT: "constant",
        Schedule.LINEAR: "linear, down to 0",
        Schedule.COSINE: "half a cosine, down to 0",
    },
    "precision": {
        Precision.FP32: "float32",
        Precision.FP16: "float16, on a GPU",
        Precision.BF16: "bfloat16",
    },
    "checkpoint": {Checkpoint.LAST: "the last", Checkpoint.BEST: "the best by its performance"},
    "selection": {
        Selection.HELD_OUT: "a tenth of the training rows, left out",
        Selection.VALIDATION: "the validation rows: optimistic",
    },
}
"""Options by field, in the order in which they are offered."""


def options_of(task: str) -> dict[str, dict[str, str]]:
    """All options, with the metrics that the task has."""
    metrics = METRICS[TaskKind(task)] if task in set(TaskKind) else tuple(METRIC_WORDS)
    return WORDS | {"metric": {metric: METRIC_WORDS[metric] for metric in metrics}}


GRID_GROUPS = {
    "Training": [name for name in GRID_FIELDS if name not in READERS and name in LABELS],
    "Regularizers": [name for name in GRID_FIELDS if name in READERS],
}
"""Settings that the form offers for a grid; sets of regularizers beside every run are for the API."""
