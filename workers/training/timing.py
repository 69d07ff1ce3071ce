"""Clocks for a dry run, and the time of what follows a run's last step."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from app.core.settings import Settings
from app.db.models import Phase
from isoscope.core.task import TaskKind
from isoscope.hidden_states import depth, width
from workers.job_rows import job_sessions
from workers.training.evaluation import SealedRows, evaluate, score_sealed
from workers.training.inference import Rows
from workers.training.progress import Onlooker
from workers.training.sentences import PAIR_ROWS, pair_scores
from workers.training.tasks import Task


class StepClock(TrainerCallback):
    """Notes when each step ended."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Note it."""
        self.ends.append(_now())


class Pass(NamedTuple):
    """One pass over rows, from its beginning to the end of its last batch."""

    rows: int
    seconds: float


class PassClock(Onlooker):
    """Stands in for the progress of a run, and notes how long each pass over rows takes. It writes nothing."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(job_sessions(settings), "", "")
        self.passes: list[Pass] = []
        self._began = 0.0

    def enter(self, phase: Phase, total: int, done: int = 0) -> None:
        """Start the clock."""
        self._began = _now()
        self.passes.append(Pass(0, 0.0))

    def advance(self, done: int) -> None:
        """Note the time since the pass began."""
        self.passes[-1] = Pass(done, _now() - self._began)


def seconds_of(work: Callable[[], object]) -> float:
    """Do the work and return how long it took."""
    began = time.perf_counter()
    work()
    return _now() - began


def _now() -> float:
    """Let a GPU finish what it was given, since calls return before it has; then read the clock."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


class FinalCost(NamedTuple):
    """Seconds of the final measuring of a model: what grows with the rows, and what does not."""

    seconds_per_measured_row: float
    seconds_per_test_row: float
    """0 without test rows."""
    seconds_per_measuring: float
    """Of eigenvalues and all else that is done once, however many rows there are."""
    seconds_of_pairs: float
    """Of the measures of pairs at all layers, with ``pair_rows`` rows; it grows with their square."""
    pair_rows: int
    most_pair_rows: int = PAIR_ROWS


def time_measuring(
    model: PreTrainedModel, train: Rows, sample: Rows, n: int, task: Task, settings: Settings, *, tested: bool
) -> FinalCost:
    """Measure the model on a sample of its validation rows as at the end of a run, and return what that took.

    Args:
        model: as it is before any step.
        train: some rows that it would be trained on.
        sample: some of its validation rows.
        n: how many there are of these.
        task: what it is trained for.
        settings: of the worker.
        tested: whether the data set has test rows, which are scored too.

    """
    clock = PassClock(settings)
    whole = seconds_of(lambda: evaluate(model, train, sample, task, clock))
    pair_rows = max(1, min(n, PAIR_ROWS))
    once = whole - sum(one.seconds for one in clock.passes) - _pair_seconds(model, min(len(sample), PAIR_ROWS), task)
    per_test_row = 0.0
    if tested:
        sealed = PassClock(settings)
        score_sealed(model, SealedRows(sample, ""), task, sealed)
        per_test_row = sealed.passes[0].seconds / len(sample)
    return FinalCost(
        seconds_per_measured_row=clock.passes[0].seconds / len(sample),
        seconds_per_test_row=per_test_row,
        seconds_per_measuring=max(0.0, once),
        seconds_of_pairs=_pair_seconds(model, pair_rows, task),
        pair_rows=pair_rows,
    )


def _pair_seconds(model: PreTrainedModel, n: int, task: Task) -> float:
    """Seconds of the measures of pairs at all layers, timed at one: what they take depends on the shape alone."""
    drawn = np.random.default_rng(0).standard_normal((n, width(model)), dtype=np.float32)
    labels = None
    if task.config.task is TaskKind.CLASSIFICATION:
        labels = torch.arange(n) % len(task.config.label_names)
    return depth(model) * seconds_of(lambda: pair_scores(torch.from_numpy(drawn), torch.arange(n), labels))
