"""The tokens of each layer of a model that is only looked at, not trained."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from app.db.config import RunConfig
from app.errors import InvalidError
from isotropy.isoscore import isoscore_from_covariance
from isotropy.points import union_of_layers
from isotropy.score import Score
from isotropy.spectrum import Moments, shrink


def depth(model: PreTrainedModel) -> int:
    """Return the number of transformer layers."""
    return int(model.config.get_text_config().num_hidden_layers)


def width(model: PreTrainedModel) -> int:
    """Return the number of dimensions of a hidden state."""
    return int(model.config.get_text_config().hidden_size)


def rows_at_once(config: RunConfig) -> int:
    """Return the rows of a batch that is only looked at: without gradients, four times a training batch fits."""
    return 4 * config.batch_size


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


def hidden_states_of(outputs: ModelOutput) -> Sequence[Tensor]:
    """Return 1 + L tensors [batch, tokens, d], the embedding layer first."""
    states: Sequence[Tensor] | None = outputs.get("hidden_states")
    if states is None:
        raise InvalidError(
            "Expected a model that shows its layers as one sequence of hidden states, which encoder-decoder models do "
            "not. Choose an encoder such as BERT, or a decoder such as GPT-2.",
            "model",
        )
    return states


def empty_moments(model: PreTrainedModel) -> Moments:
    """Return moments of no points of the model's width, kept on its device if that has float64."""
    return Moments(width(model), "cpu" if model.device.type == "mps" else model.device)


class LayerMoments:
    """Moments of the tokens of every transformer layer; padding and the embedding layer are left out."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.layers = [empty_moments(model) for _ in range(depth(model))]

    def update(self, hidden_states: Sequence[Tensor], attention_mask: Tensor) -> None:
        """Add a batch: 1 + L tensors [batch, tokens, d] and the mask [batch, tokens]."""
        for number, moments in enumerate(self.layers, start=1):
            moments.update(union_of_layers(hidden_states, attention_mask, [number]))

    def union(self) -> Moments:
        """Return the moments of all layers as one cloud."""
        union = Moments(self.layers[0].d, self.layers[0].mean.device)
        for moments in self.layers:
            union.merge(moments)
        return union


def isoscore_star(points: Moments, zeta: float, towards: Moments) -> Score:
    """Return IsoScore* of a cloud by its moments, shrunk towards the covariance of another cloud."""
    return isoscore_from_covariance(shrink(points.covariance(), towards.covariance(), zeta))
