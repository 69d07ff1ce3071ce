"""Search for the rows nearest to a vector, block by block: of a report's pages, of the API and of look-up jobs."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isotropy.catalog import Similarity


class NearestRow(NamedTuple):
    """A row by its position, and its cosine, dot product or distance to the query."""

    position: int
    nearness: float


def directions(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """Return vectors [m, d] at length 1, NaN where they hold zeros alone."""
    wide = vectors.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        # Over the largest entry first, so that no square leaves the range of float64.
        wide /= np.abs(wide).max(axis=1, keepdims=True)
        wide /= np.sqrt(np.einsum("ij,ij->i", wide, wide))[:, None]
    return wide


def nearest_rows(
    blocks: Iterable[tuple[NDArray[Any], NDArray[np.int64]]],
    query: NDArray[Any],
    k: int,
    similarity: Similarity,
    excluded: int | None = None,
) -> list[NearestRow]:
    """Return the k rows nearest to a query, nearest first; of equally near rows the first.

    By cosine, rows of zeros have no direction and are never near.

    Args:
        blocks: vectors [m, d] and the position of each [m].
        query: a vector [d].
        k: rows to return; fewer where there are fewer.
        similarity: what orders the rows.
        excluded: position of the row that is the query itself.

    """
    by_cosine = similarity is Similarity.COSINE
    target = directions(query[None])[0] if by_cosine else query.astype(np.float64)
    best, best_positions = np.empty(0), np.empty(0, np.int64)
    for vectors, positions in blocks:
        if similarity is Similarity.EUCLIDEAN:
            scores = -np.linalg.norm(vectors - target, axis=1)
        else:
            scores = (directions(vectors) if by_cosine else vectors) @ target
        candidates = ~np.isnan(scores) & (positions != excluded)
        merged = np.concatenate([best, scores[candidates]])
        order = np.argsort(-merged, kind="stable")[:k]
        best, best_positions = merged[order], np.concatenate([best_positions, positions[candidates]])[order]
    if similarity is not Similarity.DOT:
        best = np.minimum(best, 1) if by_cosine else -best
    return [NearestRow(*pair) for pair in zip(best_positions.tolist(), best.tolist(), strict=True)]
