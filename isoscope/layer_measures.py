"""What moments tell of every layer of a model: measured alike while it trains and when it is done."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor
from transformers import PreTrainedModel

from app.db.models import Pooling
from isotropy.anisotropy import anisotropy, second_moment
from isotropy.cosine import CosineMoments
from isotropy.isoscore import isoscore_from_covariance
from isotropy.score import Score
from isotropy.spectrum import Moments, eigenvalues, shrink
from isotropy.unbiased import FourthMoments, isoscore_unbiased_from_moments
from workers.finetune.layers import LayerMoments, tokens_by_layer
from workers.pooling import pool

DIRECTIONS = 3
"""Leading directions whose shares are told, k = 1 to 3: those of Kudriashov, Karpik & Klyshinsky (2025)."""


class ByLayer(NamedTuple):
    """The scores of one measure, first transformer layer first."""

    scores: list[Score]
    n: int
    """Points behind each."""


class LayerMeasures:
    """Measures of the tokens of every transformer layer, from one pass over texts.

    The bias-corrected IsoScore alone is that of one vector a text, the mean of its tokens: it wants independent rows,
    and tokens of one text are not. Windows that are cut of one long text are texts here, though they overlap.
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
            texts.update(pool(states, attention_mask, Pooling.MEAN))

    def scores(self, zeta: float = 0.0, towards: LayerMoments | None = None) -> dict[str, ByLayer]:
        """Return the scores of all layers, by measure: IsoScore* shrunk towards each layer of other tokens."""
        targets = (self.tokens if towards is None else towards).layers
        layers = zip(self.tokens.layers, self._cosines, targets, strict=True)
        of_tokens = [moment_scores(moments, cosines, zeta, target) for moments, cosines, target in layers]
        n = self.tokens.layers[0].n
        found = {measure: ByLayer([layer[measure] for layer in of_tokens], n) for measure in of_tokens[0]}
        unbiased = [isoscore_unbiased_from_moments(texts) for texts in self._texts]
        return found | {"isoscore_unbiased": ByLayer(unbiased, self._texts[0].n)}


def moment_scores(
    moments: Moments, cosines: CosineMoments, zeta: float = 0.0, towards: Moments | None = None
) -> dict[str, Score]:
    """Return IsoScore*, the mean cosine, and the k-th anisotropies of points raw and centred.

    At zeta > 0 IsoScore* is shrunk towards the covariance of other points.
    """
    S = moments.covariance()
    shrunk = S if towards is None or zeta == 0 else shrink(S, towards.covariance(), zeta)
    raw = anisotropy(eigenvalues(second_moment(moments), rank=moments.n), DIRECTIONS)
    centred = anisotropy(eigenvalues(S, rank=moments.n - 1), DIRECTIONS)
    return {
        "isoscore_star": isoscore_from_covariance(shrunk),
        "mean_cosine": cosines.mean_cosine(),
        **{f"anisotropy_raw_{k}": score for k, score in enumerate(raw, start=1)},
        **{f"anisotropy_centred_{k}": score for k, score in enumerate(centred, start=1)},
    }
