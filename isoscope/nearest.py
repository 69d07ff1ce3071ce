"""Exact block-by-block search for nearest rows."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isotropy.catalog import Similarity


class NearestRow(NamedTuple):
    """Position of a row, and its cosine, dot product or distance to the query."""

    position: int
    nearness: float


def scale_to_unit_length(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """Scale vectors [m, d] to unit length; rows of zeros become NaN."""
    scaled = vectors.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        # Divide by the largest entry first, so that no square overflows or underflows.
        scaled /= np.abs(scaled).max(axis=1, keepdims=True)
        scaled /= np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]
    return scaled


def nearest_rows(
    blocks: Iterable[tuple[NDArray[Any], NDArray[np.int64]]],
    query: NDArray[Any],
    k: int,
    similarity: Similarity,
    excluded: int | None = None,
) -> list[NearestRow]:
    """Return the k rows nearest to a query [d], nearest first, ties in the order of ``blocks``.

    ``blocks`` yields vectors [m, d] and their positions [m]. ``excluded`` is the position of the query itself, None if
    it is not among them. With cosine similarity, rows of zeros are never returned.
    """
    by_cosine = similarity is Similarity.COSINE
    target = scale_to_unit_length(query[None])[0] if by_cosine else query.astype(np.float64)
    best_scores, best_positions = np.empty(0), np.empty(0, np.int64)  # larger scores are nearer
    for vectors, positions in blocks:
        if similarity is Similarity.EUCLIDEAN:
            scores = -np.linalg.norm(vectors - target, axis=1)
        else:
            scores = (scale_to_unit_length(vectors) if by_cosine else vectors) @ target
        is_candidate = ~np.isnan(scores) & (positions != excluded)
        merged_scores = np.concatenate([best_scores, scores[is_candidate]])
        merged_positions = np.concatenate([best_positions, positions[is_candidate]])
        order = np.argsort(-merged_scores, kind="stable")[:k]
        best_scores, best_positions = merged_scores[order], merged_positions[order]
    if by_cosine:
        best_scores = np.minimum(best_scores, 1)  # rounding may exceed 1
    nearness = -best_scores if similarity is Similarity.EUCLIDEAN else best_scores
    return [NearestRow(*pair) for pair in zip(best_positions.tolist(), nearness.tolist(), strict=True)]
