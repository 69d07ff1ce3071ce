"""Tokenize rows, and run batches of them through a model without gradients."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import datasets
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from app.db.config import RunConfig
from app.db.models import Phase
from workers.training.progress import Progress

Collate = Callable[[list[dict[str, Any]]], Mapping[str, Tensor]]


@dataclass(frozen=True)
class TokenizedRows:
    """Tokenized rows with their labels, and the function that makes a batch of them."""

    dataset: datasets.Dataset
    """The tokenizer's columns, such as ``input_ids``, and the labels that the model's head needs."""
    token_counts: NDArray[np.int64]
    """[n], number of tokens of each row without padding."""
    collate: Collate

    def __len__(self) -> int:
        return len(self.token_counts)

    @property
    def n_examples(self) -> int:
        """Return the number of examples; a subclass may cut an example into several rows."""
        return len(self)

    def batches(self, indices: NDArray[np.int64], size: int, device: torch.device) -> Iterator[dict[str, Tensor]]:
        """Yield batches of at most ``size`` rows; draws no random numbers, so measuring does not change training."""
        for start in range(0, len(indices), size):
            rows = [self.dataset[int(index)] for index in indices[start : start + size]]
            yield {name: tensor.to(device) for name, tensor in self.collate(rows).items()}

    def longest_first(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sort row indices by length: batches need less padding, and if one exceeds the memory, the first does."""
        return indices[np.argsort(-self.token_counts[indices], kind="stable")]


def draw_row_indices(
    lengths: NDArray[np.int64], max_tokens: int, seed: Sequence[int], min_rows: int = 1, max_rows: int | None = None
) -> NDArray[np.int64]:
    """Draw indices of rows of at most ``max_tokens`` in total, but at least ``min_rows``; ``lengths`` are in tokens."""
    order = np.random.default_rng(seed).permutation(len(lengths))[:max_rows]
    n_fitting = np.searchsorted(np.cumsum(lengths[order]), max_tokens, side="right")
    return order[: max(int(n_fitting), min_rows)]


def inference_batch_size(config: RunConfig) -> int:
    """Return the batch size without gradients: larger than in training, because less memory is needed."""
    return 4 * config.batch_size


class BatchOutputs(NamedTuple):
    """A batch with the model's outputs."""

    batch: Mapping[str, Tensor]
    outputs: ModelOutput
    indices: NDArray[np.int64]
    """The index of each row in the tokenized rows, [batch]."""

    @property
    def loss_sum(self) -> float:
        """Return the sum of the rows' losses, of which the model returns the mean."""
        return float(self.outputs["loss"]) * len(self.indices)


def forward(
    model: PreTrainedModel,
    rows: TokenizedRows,
    order: NDArray[np.int64],
    config: RunConfig,
    progress: Progress,
    *,
    hidden_states: bool = True,
) -> Iterator[BatchOutputs]:
    """Run the rows with the indices ``order`` through the model, in that order; call it inside ``evaluation_mode``."""
    progress.enter(Phase.EVALUATING, total=len(order))
    done = 0
    for batch in rows.batches(order, inference_batch_size(config), model.device):
        indices = order[done : done + len(batch["attention_mask"])]
        yield BatchOutputs(batch, model(**batch, output_hidden_states=hidden_states), indices)
        done += len(indices)
        progress.advance(done)
