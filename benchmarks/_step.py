"""A model of BERT-base's shape in training, and the steps that it can make."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from transformers import BertConfig, BertForSequenceClassification
from transformers.utils.generic import ModelOutput

BATCH, TOKENS = 8, 128

# What the model gives and what it was given in, a scalar out that is added to the loss.
Penalty = Callable[[ModelOutput, Mapping[str, Tensor]], Tensor]


class Step:
    """Forward, backward and AdamW: the batch stays the same, the weights do not."""

    def __init__(self, device: torch.device, *, half: bool = False) -> None:
        torch.manual_seed(0)
        self.model = BertForSequenceClassification(BertConfig()).train()
        self.model.to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-5)
        self.batch = self.rows(BATCH)
        self._half = half

    def rows(self, n: int) -> dict[str, Tensor]:
        """Return ``n`` rows of random tokens without padding, of two classes in turn."""
        device = self.model.device
        return {
            "input_ids": torch.randint(1000, 30_000, (n, TOKENS), device=device),
            "attention_mask": torch.ones(n, TOKENS, dtype=torch.long, device=device),
            "labels": torch.arange(n, device=device) % 2,
        }

    def take(self, penalty: Penalty | None = None) -> None:
        """Make one step, of the task alone or with a penalty on the hidden states."""
        with torch.autocast(self.model.device.type, torch.bfloat16, enabled=self._half):
            outputs = self.model(**self.batch, output_hidden_states=penalty is not None)
        loss = outputs.loss
        if penalty is not None:
            loss = loss + penalty(outputs, self.batch)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
