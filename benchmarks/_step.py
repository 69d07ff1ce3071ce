"""Training steps of a model with the shape of BERT-base."""

import os
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from transformers import BertConfig, BertForSequenceClassification
from transformers.utils.generic import ModelOutput

BATCH = int(os.environ.get("BATCH", "8"))
TOKENS = 128
STEPS_PER_ROUND = 10 if torch.cuda.is_available() else 1  # Single steps of a GPU vary too much

# Takes the outputs and the inputs of the model; returns a scalar that is added to the loss.
Penalty = Callable[[ModelOutput, Mapping[str, Tensor]], Tensor]


class Step:
    """A training step, forward, backward and AdamW, on the same batch each time."""

    def __init__(self, device: torch.device, *, half: bool = False) -> None:
        torch.manual_seed(0)
        self.model = BertForSequenceClassification(BertConfig()).train()
        self.model.to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-5, fused=True)
        self.batch = self.rows(BATCH)
        self.half = half

    def rows(self, n: int) -> dict[str, Tensor]:
        """Return ``n`` rows of random tokens without padding, with alternating labels 0 and 1."""
        device = self.model.device
        return {
            "input_ids": torch.randint(1000, 30_000, (n, TOKENS), device=device),
            "attention_mask": torch.ones(n, TOKENS, dtype=torch.long, device=device),
            "labels": torch.arange(n, device=device) % 2,
        }

    def take_several(self, penalty: Penalty | None = None) -> None:
        """Take ``STEPS_PER_ROUND`` steps."""
        for _ in range(STEPS_PER_ROUND):
            self.take(penalty)

    def take(self, penalty: Penalty | None = None) -> None:
        """Take a step; ``penalty`` is added to the loss of the task."""
        with torch.autocast(self.model.device.type, torch.bfloat16, enabled=self.half):
            outputs = self.model(**self.batch, output_hidden_states=penalty is not None)
        loss = outputs.loss
        if penalty is not None:
            loss = loss + penalty(outputs, self.batch)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
