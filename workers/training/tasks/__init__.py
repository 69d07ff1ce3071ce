"""Kinds of tasks: the head of the model, how rows are encoded, and how predictions are collected and scored."""

from isoscope.core.task import TaskKind
from workers.training.tasks.classification import Classification
from workers.training.tasks.regression import Regression
from workers.training.tasks.span import SpanTask
from workers.training.tasks.task import Collector, Task

__all__ = ["TASKS", "Collector", "Task"]

TASKS: dict[TaskKind, type[Task]] = {
    TaskKind.CLASSIFICATION: Classification,
    TaskKind.REGRESSION: Regression,
    TaskKind.SPAN: SpanTask,
}
