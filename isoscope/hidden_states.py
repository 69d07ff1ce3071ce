"""The hidden states of a model that is only looked at, not trained."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from isoscope.core.errors import InvalidError

NOT_ONE_SEQUENCE = (
    "Expected a model that shows its layers as one sequence of hidden states, which encoder-decoder models do "
    "not. Choose an encoder such as BERT, or a decoder such as GPT-2."
)


def depth(model: PreTrainedModel) -> int:
    """Return the number of transformer layers."""
    return int(model.config.get_text_config().num_hidden_layers)


def width(model: PreTrainedModel) -> int:
    """Return the number of dimensions of a hidden state."""
    return int(model.config.get_text_config().hidden_size)


@contextmanager
def looking_at(model: PreTrainedModel) -> Iterator[None]:
    """Switch dropout and gradients off, and afterwards back to what they were."""
    training = model.training
    model.train(False)
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


def mean_of_tokens(states: Tensor, attention_mask: Tensor) -> Tensor:
    """Return the mean [batch, d] of each text's tokens [batch, tokens, d] that are not padding."""
    real = attention_mask.bool().unsqueeze(-1)
    # Not multiplied by the mask: what a model makes of padding may be NaN.
    return states.masked_fill(~real, 0).sum(dim=1) / real.sum(dim=1)


def hidden_states_of(outputs: ModelOutput) -> Sequence[Tensor]:
    """Return 1 + L tensors [batch, tokens, d], the embedding layer first."""
    states: Sequence[Tensor] | None = outputs.get("hidden_states")
    if states is None:
        raise InvalidError(NOT_ONE_SEQUENCE, "model")
    return states
