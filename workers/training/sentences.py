"""Measures of sentence vectors: moments of the last layer, and pair measures of every layer."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from isoscope.hidden_states import LayerScores, depth, empty_moments, moment_scores, width
from isotropy.activation import activation_profile
from isotropy.clusters import silhouette
from isotropy.cosine import CosineMoments
from isotropy.intrinsic import twonn
from isotropy.neighbors import distinct_rows, nearest_neighbors
from isotropy.score import Score
from isotropy.topology import barcode, persistent_entropy
from isotropy.unbiased import FourthMoments, isoscore_unbiased_from_moments
from workers.models import pool, sentence_pooling
from workers.training.inference import TokenizedRows

PAIR_ROWS = 2000
"""Maximum number of rows for pair measures, whose time and memory grow with its square in every layer."""
PAIR_SEED = 0


class SentenceMeasures:
    """Measures of the sentence vectors of rows, pooled as the model's own head pools them.

    The last layer's moments cover all rows. Pair measures use at most ``PAIR_ROWS`` rows, drawn by a seed that all
    runs share, so that runs are compared on the same rows. ``update`` must add each row at ``indices`` once. The
    dataset's ``label_column`` has the rows' classes; None without classes, for which there is no silhouette.
    """

    def __init__(
        self, model: PreTrainedModel, rows: TokenizedRows, indices: NDArray[np.int64], label_column: str | None
    ) -> None:
        self.pooling = sentence_pooling(model)
        self._drawn_indices = np.random.default_rng(PAIR_SEED).permutation(np.sort(indices))[:PAIR_ROWS]
        drawn_rows = rows.dataset[self._drawn_indices.tolist()]
        self._labels = None if label_column is None else torch.tensor(drawn_rows[label_column])
        first_positions: dict[tuple[int, ...], int] = {}
        for position, token_ids in enumerate(drawn_rows["input_ids"]):
            first_positions.setdefault(tuple(token_ids), position)
        # Ascending positions among the drawn rows of each distinct text's first occurrence, int64.
        self._distinct_positions = torch.tensor(list(first_positions.values()))
        self._vectors = torch.zeros(depth(model), len(self._drawn_indices), width(model))
        moments = empty_moments(model)
        self._last_moments = FourthMoments(moments.d, moments.mean.device)
        self._cosines = CosineMoments(moments.d, moments.mean.device)

    @property
    def n(self) -> int:
        """Return the number of rows added so far."""
        return self._last_moments.n

    def pool_layers(self, hidden_states: Sequence[Tensor], attention_mask: Tensor) -> Tensor:
        """Return sentence vectors [L, batch, d] of 1 + L hidden states [batch, tokens, d], without the first."""
        return torch.stack([pool(states, attention_mask, self.pooling) for states in hidden_states[1:]])

    def update(self, vectors: Tensor, indices: NDArray[np.int64]) -> None:
        """Add the vectors [L, batch, d] of the rows at ``indices`` [batch]."""
        self._last_moments.update(vectors[-1])
        self._cosines.update(vectors[-1])
        _, drawn_positions, batch_positions = np.intersect1d(
            self._drawn_indices, indices, assume_unique=True, return_indices=True
        )
        self._vectors[:, drawn_positions] = vectors[:, batch_positions].to(self._vectors)

    def last_layer_scores(self) -> dict[str, Score]:
        """Return the last layer's measures over all rows."""
        (scores,) = moment_scores([self._last_moments], [self._cosines], 0.0, [self._last_moments])
        return scores | {"isoscore_unbiased": isoscore_unbiased_from_moments(self._last_moments)}

    def pair_measures(self) -> dict[str, LayerScores]:
        """Return every layer's pair measures. TwoNN needs distinct texts: vectors of equal ones differ by rounding."""
        layers: list[dict[str, Score]] = []
        for x in self._vectors:
            distinct_vectors = x[self._distinct_positions]
            nearest = nearest_neighbors(distinct_vectors[distinct_rows(distinct_vectors)], 2)
            layers.append({"twonn": twonn(nearest).dimension, "persistent_entropy": persistent_entropy(barcode(x))})
            if self._labels is not None:
                layers[-1]["silhouette"] = silhouette(x, self._labels)
        row_counts = {"twonn": len(self._distinct_positions)}
        return {
            measure: LayerScores(
                [layer[measure] for layer in layers], row_counts.get(measure, len(self._drawn_indices))
            )
            for measure in layers[0]
        }

    def activation(self) -> dict[str, Any] | None:
        """Return the rows' number, mean and standard deviation by dimension of the last layer; None if undefined."""
        profile = activation_profile(self._last_moments)
        if profile.score.value is None:
            return None
        return {"n": self.n, "mean": profile.mean.tolist(), "std": profile.std.tolist()}
