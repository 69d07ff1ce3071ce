"""The losses since the last row of a run's curves."""

import torch
from torch import Tensor


class Tally:
    """Sums of task loss and penalty over batches. They stay on the device, so that no step waits for them.

    In float64, which adds up float32 without rounding: what a row tells does not depend on when processes share them.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self.batches = 0
        self.task_loss = torch.zeros((), dtype=torch.float64)
        self.penalty = torch.zeros((), dtype=torch.float64)

    def add(self, task_loss: Tensor, penalty: Tensor | None) -> None:
        """Count one batch with its two scalars; no penalty is zero."""
        self.batches += 1
        self.task_loss = _plus(self.task_loss, task_loss)
        if penalty is not None:
            self.penalty = _plus(self.penalty, penalty)

    def means(self) -> tuple[float, float]:
        """Return the mean task loss and the mean penalty of the batches."""
        return float(self.task_loss) / self.batches, float(self.penalty) / self.batches

    def state(self) -> dict[str, Tensor]:
        """Return the sums as plain tensors, for a checkpoint."""
        return {"batches": torch.tensor(self.batches), "task_loss": self.task_loss, "penalty": self.penalty}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from the sums of a checkpoint."""
        self.batches = int(state["batches"])
        self.task_loss, self.penalty = state["task_loss"], state["penalty"]


def _plus(total: Tensor, added: Tensor) -> Tensor:
    # Apple's GPUs have no float64.
    dtype = torch.float32 if added.device.type == "mps" else torch.float64
    return total.to(added.device, dtype) + added.detach().to(dtype)
