"""The losses since the last row of a run's curves."""

import torch
from torch import Tensor


class Tally:
    """Sums of task loss and penalty over batches. They stay on the device, so that no step waits for them."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all batches."""
        self.batches = 0
        self.task_loss = torch.zeros(())
        self.penalty = torch.zeros(())

    def add(self, task_loss: Tensor, penalty: Tensor | None) -> None:
        """Count one batch with its two scalars; no penalty is zero."""
        self.batches += 1
        self.task_loss = self.task_loss.to(task_loss.device) + task_loss.detach()
        if penalty is not None:
            self.penalty = self.penalty.to(penalty.device) + penalty.detach()

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
