"""Which vectors of a batch a regularizer sees."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from app.db.config import RunConfig
from app.db.models import Pooling
from app.db.regularizer_options import Layers, Points, Regularizer
from isoscope.hidden_states import depth
from isotropy.catalog import REGULARIZERS
from isotropy.points import union_of_layers
from workers.pooling import pool, sentence_pooling


@dataclass(frozen=True)
class View:
    """Layers, and which of their vectors: every token, or one of each text."""

    layers: Sequence[int]
    """From 1; the embedding layer is 0 and never seen."""
    pooling: Pooling | None
    """None for every token."""
    include_padding: bool = False
    """Among tokens; it counts in no pooled vector."""

    def mask(self, attention_mask: Tensor, draw: Callable[[Tensor], Tensor] = lambda mask: mask) -> Tensor:
        """Return the mask [batch, tokens] of the tokens that ``points`` takes; ``draw`` leaves some out of a mask.

        Nothing is left out of pooled vectors.
        """
        if self.pooling is not None:
            return attention_mask
        return draw(torch.ones_like(attention_mask) if self.include_padding else attention_mask)

    def points(self, hidden_states: Sequence[Tensor], mask: Tensor) -> Tensor:
        """Return the points [layers, n, d] of 1 + L hidden states [batch, tokens, d]; gradients flow through."""
        if self.pooling is not None:
            return torch.stack([pool(hidden_states[layer], mask, self.pooling) for layer in self.layers])
        union = union_of_layers(hidden_states, mask, self.layers)
        return union.view(len(self.layers), -1, union.shape[1])

    def labels(self, labels: Tensor, mask: Tensor) -> Tensor:
        """Return the label of each point [n] of a layer, of those of texts [batch]."""
        return labels if self.pooling is not None else labels.repeat_interleave(mask.sum(dim=1))


def make_view(regularizer: Regularizer, config: RunConfig, model: PreTrainedModel) -> View | None:
    """Return what a regularizer sees of a model under a configuration; None if it looks at no hidden states."""
    sees = REGULARIZERS[regularizer].sees
    if sees is None:
        return None
    layers, points = sees
    numbers = _numbers(config.layers or layers, depth(model))
    return View(numbers, _pooling(config.points or points, model), config.include_padding)


def _pooling(points: Points, model: PreTrainedModel) -> Pooling | None:
    if points is Points.SENTENCE:
        return sentence_pooling(model)
    return Pooling.MEAN if points is Points.MEAN else None


def _numbers(layers: Sequence[int] | Layers, last: int) -> Sequence[int]:
    if layers is Layers.ALL:
        return range(1, last + 1)
    return [last] if layers is Layers.LAST else layers
