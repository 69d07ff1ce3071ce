"""Keep the processes of one run in step: they average their losses, and save and stop together.

Each process trains on a part of every batch. The first one writes to the database, measures the model and decides when
to save and stop. The others wait for it at the end of each step.
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

# Long, because the others wait while the first process evaluates. If one fails, ``ddp_launch`` ends all.
GROUP_TIMEOUT = timedelta(days=30)
LOOPBACK_INTERFACE = "lo0" if sys.platform == "darwin" else "lo"


@dataclass(frozen=True)
class ProcessRank:
    """The rank of a process among all processes of its run, and its connection to them."""

    rank: int = 0
    n_processes: int = 1
    group: distributed.ProcessGroup | None = None
    """The group of all processes, for tensors in CPU memory."""

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def broadcast(self, *numbers: int) -> list[int]:
        """Return the first process's numbers in every process."""
        if self.n_processes == 1:
            return list(numbers)
        tensor = torch.tensor(numbers)
        distributed.broadcast(tensor, src=0, group=self.group)
        return [int(number) for number in tensor]

    def mean(self, values: Tensor) -> Tensor:
        """Return the elementwise mean over the tensors of all processes; on the CPU if there are several."""
        if self.n_processes == 1:
            return values
        total = values.to("cpu", torch.float64)
        distributed.all_reduce(total, group=self.group)
        return (total / self.n_processes).to(values.dtype)

    def reseed_unless_first(self, seed: int) -> None:
        """Seed torch by ``seed`` and rank, so that dropout masks differ; the first process keeps its random state."""
        if not self.is_first:
            torch.manual_seed(int(np.random.SeedSequence((seed, self.rank)).generate_state(1)[0]))


@contextmanager
def joined_process_group(rank: int, n_processes: int, rendezvous: Path, device: str) -> Iterator[ProcessRank]:
    """Join the run's processes, which find each other through the file ``rendezvous``, and share the CPU's threads.

    Sets the environment variables that the Trainer reads.
    """
    on_gpu = device.startswith("cuda")
    # Each process sees only its own GPU, as device 0.
    local_rank = 0 if on_gpu else rank
    variables = {
        "RANK": rank,
        "WORLD_SIZE": n_processes,
        "LOCAL_RANK": local_rank,
        "LOCAL_WORLD_SIZE": n_processes,
    }
    threads = max(1, torch.get_num_threads() // n_processes)
    os.environ.update({name: str(value) for name, value in variables.items()})
    for name, value in (("OMP_NUM_THREADS", str(threads)), ("GLOO_SOCKET_IFNAME", LOOPBACK_INTERFACE)):
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
    metrics_callback: MetricsCallback | None
    """None except in the first process."""

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Average the tallies if the step is logged, or may be the last one of the training, which is logged too."""
        is_logged = self.metrics_callback is not None and self.metrics_callback.logs_at(state.global_step)
        may_be_last = state.global_step == state.max_steps or is_evaluation_due(self.config, state)
        is_logged, may_be_last = map(bool, self.process_rank.broadcast(is_logged, may_be_last))
        if is_logged or may_be_last:
            self._average_tallies()
        if is_logged and not self.process_rank.is_first:
            self.tally.clear()

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Average the tallies for the checkpoint, and so wait until all processes have saved their random state."""
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
