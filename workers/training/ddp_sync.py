"""What the processes of one run have to agree on while they train: losses, when to save, when to stop.

Each has a part of every batch and takes the same step. The first keeps the row, looks at the model and says what
happens; the others wait for it at the end of the step.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from app.db.config import RunConfig
from workers.training.checkpoints import is_due
from workers.training.metrics import MetricsCallback, Tally

# Nothing is given up because the first process looks at its model for long. Whoever ends, ends all (``ranks``).
PATIENCE = timedelta(days=30)
LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"


@dataclass(frozen=True)
class Place:
    """Which of a run's processes this one is."""

    rank: int = 0
    of: int = 1
    group: distributed.ProcessGroup | None = None
    """Of all of them, for numbers in the machine's memory."""

    @property
    def first(self) -> bool:
        """Whether this is the process that keeps the row."""
        return self.rank == 0

    def broadcast(self, *numbers: int) -> list[int]:
        """Return the first process's numbers, in all of them."""
        if self.of == 1:
            return list(numbers)
        tensor = torch.tensor(numbers)
        distributed.broadcast(tensor, src=0, group=self.group)
        return [int(number) for number in tensor]

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean of a tensor over all processes."""
        if self.of == 1:
            return values
        total = values.to("cpu", torch.float64)
        distributed.all_reduce(total, group=self.group)
        return (total / self.of).to(values.dtype)

    def draw_apart(self, seed: int) -> None:
        """Give each process random numbers of its own; by the same seed all would drop the same units."""
        if not self.first:
            torch.manual_seed(int(np.random.SeedSequence((seed, self.rank)).generate_state(1)[0]))


def threads_of_each(of: int) -> int:
    """Return how many of this process's threads each of several has."""
    return max(1, torch.get_num_threads() // of)


@contextmanager
def sharing_cores(of: int) -> Iterator[None]:
    """Have as many threads as one of several processes, and afterward all again."""
    threads = torch.get_num_threads()
    torch.set_num_threads(threads_of_each(of))
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def joined(rank: int, of: int, meeting: Path, device: str) -> Iterator[Place]:
    """Join the processes of a run, which meet by a file; the Trainer learns of it by the environment."""
    on_gpu = device.startswith("cuda")
    # Each sees one GPU only, as its first.
    local = 0 if on_gpu else rank
    told = {"RANK": rank, "WORLD_SIZE": of, "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": of}
    threads = threads_of_each(of)
    os.environ.update({name: str(value) for name, value in told.items()})
    for name, value in (("OMP_NUM_THREADS", str(threads)), ("GLOO_SOCKET_IFNAME", LOOPBACK)):
        os.environ.setdefault(name, value)
    torch.set_num_threads(threads)
    distributed.init_process_group(
        "nccl" if on_gpu else "gloo",
        init_method=meeting.as_uri(),
        rank=rank,
        world_size=of,
        timeout=PATIENCE,
    )
    try:
        yield Place(rank, of, distributed.new_group(backend="gloo", timeout=PATIENCE))
    finally:
        distributed.destroy_process_group()


class SharedTally(TrainerCallback):
    """Makes the tally of each process the mean of all, before it is read or saved. To be called before all others."""

    def __init__(self, place: Place, tally: Tally, config: RunConfig, metrics: MetricsCallback | None) -> None:
        self.place = place
        self.tally = tally
        self.config = config
        self.metrics = metrics
        """Of the first process."""

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Share it where the first process may write a row, which then begins a new one."""
        row, shared = self.metrics is not None and self.metrics.is_due(state.global_step), self._may_end(state)
        row, shared = map(bool, self.place.broadcast(row, shared))
        if row or shared:
            self._share()
        if row and not self.place.first:
            self.tally.clear()

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Share it for the checkpoint, which is whole when all have come here: each saves its random state."""
        self._share()

    def _may_end(self, state: TrainerState) -> bool:
        return state.global_step == state.max_steps or is_due(self.config, state)

    def _share(self) -> None:
        if self.place.of == 1:
            return
        sums = self.place.mean(torch.stack([self.tally.task_loss.cpu(), self.tally.penalty.cpu()]))
        self.tally.task_loss, self.tally.penalty = sums.unbind()


class Agreement(TrainerCallback):
    """Has all processes save and stop when the first does. To be called after all others."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Tell, or be told."""
        save, stop = self.place.broadcast(control.should_save, control.should_training_stop)
        control.should_save, control.should_training_stop = bool(save), bool(stop)
