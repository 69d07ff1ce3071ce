"""Hidden states of a model in evaluation, and measures of its layers."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from isoscope.core.errors import InvalidError
from isotropy.anisotropy import anisotropy, second_moment
from isotropy.catalog import MEASURES, Measure
from isotropy.cosine import CosineMoments
from isotropy.isoscore import isoscore_from_covariance
from isotropy.points import require_mask, token_positions
from isotropy.score import Score
from isotropy.spectrum import Moments, leading_eigenvalues, shrink
from isotropy.unbiased import FourthMoments, isoscore_unbiased_from_moments

NOT_ONE_SEQUENCE = (
    "Expected a model that shows its layers as one sequence of hidden states, which encoder-decoder models do "
    "not. Choose an encoder such as BERT, or a decoder such as GPT-2."
)

RAW_ANISOTROPY, CENTERED_ANISOTROPY = MEASURES["anisotropy_raw"], MEASURES["anisotropy_centred"]
MAX_STACK_BYTES = 2**28  # Of matrices whose eigenvalues are computed together


def depth(model: PreTrainedModel) -> int:
    return int(model.config.get_text_config().num_hidden_layers)


def width(model: PreTrainedModel) -> int:
    return int(model.config.get_text_config().hidden_size)


@contextmanager
def evaluation_mode(model: PreTrainedModel) -> Iterator[None]:
    """Disable dropout and gradients while the context is open."""
    training = model.training
    model.train(False)
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


def mean_of_tokens(states: Tensor, attention_mask: Tensor) -> Tensor:
    """Return the mean [batch, d] of each text's tokens [batch, tokens, d] without padding."""
    token_mask = attention_mask.bool().unsqueeze(-1)
    # Filled rather than multiplied by the mask: hidden states of padding may be NaN.
    return states.masked_fill(~token_mask, 0).sum(dim=1) / token_mask.sum(dim=1)


def hidden_states_of(outputs: ModelOutput) -> Sequence[Tensor]:
    """Return 1 + L tensors [batch, tokens, d], the embedding layer first."""
    states: Sequence[Tensor] | None = outputs.get("hidden_states")
    if states is None:
        raise InvalidError(NOT_ONE_SEQUENCE, "model")
    return states


def empty_moments(model: PreTrainedModel) -> Moments:
    """Return empty moments of the model's width, on its device if that has float64."""
    return Moments(width(model), "cpu" if model.device.type == "mps" else model.device)


def tokens_by_layer(hidden_states: Sequence[Tensor], attention_mask: Tensor) -> Iterator[Tensor]:
    """Yield the tokens [n, d] of every transformer layer, without padding and the embedding layer.

    ``hidden_states``: 1 + L tensors [batch, tokens, d]; ``attention_mask``: [batch, tokens], zero for padding.
    """
    positions = token_positions(attention_mask)
    for states in hidden_states[1:]:
        require_mask(attention_mask, states)
        yield states.flatten(0, 1).index_select(0, positions)


class LayerMoments:
    """Moments of points of every transformer layer."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.layers = [empty_moments(model) for _ in range(depth(model))]

    def update(self, points: Iterable[Tensor]) -> None:
        """Add points [n, d] of each layer, first layer first."""
        for moments, layer_points in zip(self.layers, points, strict=True):
            moments.update(layer_points)

    def union(self) -> Moments:
        """Return the moments of the points of all layers taken together."""
        union = Moments(self.layers[0].d, self.layers[0].mean.device)
        for moments in self.layers:
            union.merge(moments)
        return union


class LayerScores(NamedTuple):
    """The scores of one measure, first transformer layer first, and the number of points in each layer."""

    scores: list[Score]
    n: int


class LayerMeasures:
    """Measures of the tokens of every transformer layer, from one pass over texts.

    Only the bias-corrected IsoScore uses one vector per text, the mean of its tokens, because it needs independent
    rows and tokens of one text depend on each other. Windows of a long text count as texts, though they overlap.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.tokens = LayerMoments(model)
        self._cosines = [CosineMoments(layer.d, layer.mean.device) for layer in self.tokens.layers]
        self._texts = [FourthMoments(layer.d, layer.mean.device) for layer in self.tokens.layers]

    def update(self, hidden_states: Sequence[Tensor], attention_mask: Tensor) -> None:
        """Add a batch of texts: 1 + L tensors [batch, tokens, d] and the mask [batch, tokens]."""
        tokens = tokens_by_layer(hidden_states, attention_mask)
        layers = zip(self.tokens.layers, self._cosines, self._texts, tokens, hidden_states[1:], strict=True)
        for moments, cosines, texts, points, states in layers:
            moments.update(points)
            cosines.update(points)
            texts.update(mean_of_tokens(states, attention_mask))

    def scores(self, zeta: float = 0.0, target: LayerMoments | None = None) -> dict[str, LayerScores]:
        """Return the scores by measure. Shrink IsoScore* of a layer toward the target's layer, by default itself."""
        targets = (self.tokens if target is None else target).layers
        token_scores = moment_scores(self.tokens.layers, self._cosines, zeta, targets)
        n_tokens, n_texts = self.tokens.layers[0].n, self._texts[0].n
        scores = {
            measure: LayerScores([layer[measure] for layer in token_scores], n_tokens) for measure in token_scores[0]
        }
        unbiased = [isoscore_unbiased_from_moments(texts) for texts in self._texts]
        return scores | {"isoscore_unbiased": LayerScores(unbiased, n_texts)}

    def values(self) -> dict[str, list[float | None]]:
        """Return the value of each layer by measure, None where it is undefined; IsoScore* is not shrunk."""
        return {
            measure: [score.value for score in layer_scores.scores] for measure, layer_scores in self.scores().items()
        }


def moment_scores(
    layers: Sequence[Moments], cosines: Sequence[CosineMoments], zeta: float, targets: Sequence[Moments]
) -> list[dict[str, Score]]:
    """Return IsoScore*, shrunk toward the target, mean cosine and anisotropies of layers with equally many points."""
    n, scatter = layers[0].n, layers[0].scatter
    # A GPU starts few large operations faster than many small ones.
    stack_size = 1 if scatter.device.type == "cpu" else max(1, MAX_STACK_BYTES // scatter.nbytes)
    shares = []
    for start in range(0, len(layers), stack_size):
        part = layers[start : start + stack_size]
        raw = _leading_shares(torch.stack([second_moment(moments) for moments in part]), RAW_ANISOTROPY, n)
        covariances = torch.stack([moments.covariance() for moments in part])
        centered = _leading_shares(covariances, CENTERED_ANISOTROPY, n - 1)
        shares += [layer_raw | layer_centered for layer_raw, layer_centered in zip(raw, centered, strict=True)]
    return [
        {"isoscore_star": isoscore_star(moments, zeta, target), "mean_cosine": cosine.mean_cosine()} | layer_shares
        for moments, target, cosine, layer_shares in zip(layers, targets, cosines, shares, strict=True)
    ]


def _leading_shares(matrices: Tensor, measure: Measure, rank: int) -> list[dict[str, Score]]:
    """Return the measure of each matrix [L, d, d], shares of its trace; ``rank`` is the largest possible."""
    count, totals = measure.leading_values, matrices.diagonal(dim1=1, dim2=2).sum(1).cpu()
    layers = zip(leading_eigenvalues(matrices, count, rank).cpu(), totals, strict=True)
    return [dict(zip(measure.value_names, anisotropy(values, count, total), strict=True)) for values, total in layers]


def isoscore_star(moments: Moments, zeta: float, target: Moments) -> Score:
    """Return IsoScore* of a cloud from its moments, shrunk toward the target's covariance."""
    S = moments.covariance()
    return isoscore_from_covariance(S if zeta == 0 else shrink(S, target.covariance(), zeta))
