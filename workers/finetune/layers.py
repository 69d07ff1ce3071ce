"""The tokens of each layer of a model that is only looked at, not trained."""

from collections.abc import Iterable, Iterator, Sequence

from torch import Tensor
from transformers import PreTrainedModel

from app.db.config import RunConfig
from isoscope.hidden_states import depth, width
from isotropy.isoscore import isoscore_from_covariance
from isotropy.points import union_of_layers
from isotropy.score import Score
from isotropy.spectrum import Moments, shrink


def rows_at_once(config: RunConfig) -> int:
    """Return the rows of a batch that is only looked at: without gradients, four times a training batch fits."""
    return 4 * config.batch_size


def empty_moments(model: PreTrainedModel) -> Moments:
    """Return moments of no points of the model's width, kept on its device if that has float64."""
    return Moments(width(model), "cpu" if model.device.type == "mps" else model.device)


def tokens_by_layer(hidden_states: Sequence[Tensor], attention_mask: Tensor) -> Iterator[Tensor]:
    """Yield the tokens [n, d] of every transformer layer; padding and the embedding layer are left out.

    Args:
        hidden_states: 1 + L tensors [batch, tokens, d].
        attention_mask: [batch, tokens], zero where a token is padding.

    """
    for number in range(1, len(hidden_states)):
        yield union_of_layers(hidden_states, attention_mask, [number])


class LayerMoments:
    """Moments of some points of every transformer layer."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.layers = [empty_moments(model) for _ in range(depth(model))]

    def update(self, points: Iterable[Tensor]) -> None:
        """Add points [n, d] of each layer, first layer first."""
        for moments, added in zip(self.layers, points, strict=True):
            moments.update(added)

    def union(self) -> Moments:
        """Return the moments of all layers as one cloud."""
        union = Moments(self.layers[0].d, self.layers[0].mean.device)
        for moments in self.layers:
            union.merge(moments)
        return union


def isoscore_star(points: Moments, zeta: float, towards: Moments) -> Score:
    """Return IsoScore* of a cloud by its moments, shrunk towards the covariance of another cloud."""
    return isoscore_from_covariance(shrink(points.covariance(), towards.covariance(), zeta))
