"""Clocks for a dry run: of steps, of passes over rows, of anything."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from app.db.models import Phase
from app.settings import Settings
from workers.finetune.progress import Onlooker
from workers.sessions import job_sessions


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
