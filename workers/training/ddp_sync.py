"""Keep the processes of one run in step while they train: losses, when to save, when to stop.

Each process trains on a part of every batch. The first one writes the row, measures the model and decides; the others
wait for it at the end of each step.
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
from workers.training.checkpoints import is_evaluation_due
from workers.training.metrics import MetricsCallback, Tally

# Long, because the others wait while the first process evaluates. If one ends, all are ended (``ddp_launch``).
GROUP_TIMEOUT = timedelta(days=30)
LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"


@dataclass(frozen=True)
class ProcessRank:
    """The rank of a process within its run."""

    rank: int = 0
    n_processes: int = 1
    group: distributed.ProcessGroup | None = None
    """The group of all processes, for tensors in CPU memory."""

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def broadcast(self, *numbers: int) -> list[int]:
        if self.n_processes == 1:
            return list(numbers)
        tensor = torch.tensor(numbers)
        distributed.broadcast(tensor, src=0, group=self.group)
        return [int(number) for number in tensor]

    def mean(self, values: Tensor) -> Tensor:
        if self.n_processes == 1:
            return values
        total = values.to("cpu", torch.float64)
        distributed.all_reduce(total, group=self.group)
        return (total / self.n_processes).to(values.dtype)

    def seed_differently(self, seed: int) -> None:
        """Seed every process but the first differently, so that dropout masks differ."""
        if not self.is_first:
            torch.manual_seed(int(np.random.SeedSequence((seed, self.rank)).generate_state(1)[0]))


@contextmanager
def joined_process_group(rank: int, n_processes: int, rendezvous: Path, device: str) -> Iterator[ProcessRank]:
    """Join the processes of a run through a file, and set the environment variables that the Trainer reads."""
    on_gpu = device.startswith("cuda")
    # Each process sees only its own GPU, as device 0.
    local_rank = 0 if on_gpu else rank
    variables = {"RANK": rank, "WORLD_SIZE": n_processes, "LOCAL_RANK": local_rank, "LOCAL_WORLD_SIZE": n_processes}
    threads = max(1, torch.get_num_threads() // n_processes)
    os.environ.update({name: str(value) for name, value in variables.items()})
    for name, value in (("OMP_NUM_THREADS", str(threads)), ("GLOO_SOCKET_IFNAME", LOOPBACK)):
        os.environ.setdefault(name, value)
    torch.set_num_threads(threads)
    distributed.init_process_group(
        "nccl" if on_gpu else "gloo",
        init_method=rendezvous.as_uri(),
        rank=rank,
        world_size=n_processes,
        timeout=GROUP_TIMEOUT,
    )
    try:
        yield ProcessRank(rank, n_processes, distributed.new_group(backend="gloo", timeout=GROUP_TIMEOUT))
    finally:
        distributed.destroy_process_group()


@dataclass(eq=False)
class SharedTally(TrainerCallback):
    """Averages the tallies of all processes before one is read or saved. Must be the first callback."""

    process_rank: ProcessRank
    tally: Tally
    config: RunConfig
    metrics: MetricsCallback | None
    """None except in the first process."""

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Share the tally at steps that may write a row."""
        writes_row = self.metrics is not None and self.metrics.writes_row_at(state.global_step)
        may_end = state.global_step == state.max_steps or is_evaluation_due(self.config, state)
        writes_row, may_end = map(bool, self.process_rank.broadcast(writes_row, may_end))
        if writes_row or may_end:
            self._average_tallies()
        if writes_row and not self.process_rank.is_first:
            self.tally.clear()

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Share the tally for the checkpoint, which is complete once all processes saved their random state."""
        self._average_tallies()

    def _average_tallies(self) -> None:
        if self.process_rank.n_processes == 1:
            return
        sums = self.process_rank.mean(torch.stack([self.tally.task_loss.cpu(), self.tally.penalty.cpu()]))
        self.tally.task_loss, self.tally.penalty = sums.unbind()


@dataclass(eq=False)
class SharedDecisions(TrainerCallback):
    """Makes all processes save and stop when the first does. Must be the last callback."""

    process_rank: ProcessRank

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        save, stop = self.process_rank.broadcast(control.should_save, control.should_training_stop)
        control.should_save, control.should_training_stop = bool(save), bool(stop)
