"""Nearest neighbors by a similarity that is chosen: Euclidean distance, cosine or dot product.

Cosine is the Euclidean distance of rows of length 1, made and searched in float64. Rows of zeros have no direction:
they are left out. Rows that point the same way but for the rounding of their coordinates count as duplicates, at
distance 0.

The dot product is no distance: a row need not be its own nearest, and long rows are near to all. The dimension that
makes Euclidean distances of products is another for queries than for rows, so that a pair has two. Products are taken
in float64: neighbors are exact but where products differ by less than these round.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from isotropy.catalog import Similarity
from isotropy.cosine import unit_rows
from isotropy.neighbours import Neighbours, distinct_rows, nearest_neighbours
from isotropy.pairs import Pairs, pairs_of
from isotropy.points import lengths
from isotropy.products import block_rows, first_least, unit_roundoff
from isotropy.tiles import GROUP
from isotropy.uniformity import uniformity

SAME_DIRECTION = 4
"""Roundings of a row, of length 1, within which two rows have the same direction."""

NearestSearch = Callable[[Tensor, int], Neighbours]


def pairs_by(x: Tensor, k: int, similarity: Similarity) -> Pairs:
    """Return the k nearest neighbors by a similarity, and the uniformity of points [n, d], which depends on none.

    Neighbors are among the distinct rows; by cosine among those that are not zero, as rows of length 1.

    Raises:
        ValueError: ``x`` is not a floating tensor [n, d], it holds NaN or infinity, or k is below 1.

    """
    if similarity is Similarity.EUCLIDEAN:
        return pairs_of(x, k)
    distinct = distinct_rows(x)
    if similarity is Similarity.COSINE:
        distinct = distinct[x[distinct].any(1)]
    points = x[distinct].double()
    points = unit_rows(points) if similarity is Similarity.COSINE else points
    return Pairs(distinct, points, search_by(similarity, x.dtype)(points, k), uniformity(x))


def search_by(similarity: Similarity, dtype: torch.dtype) -> NearestSearch:
    """Return the search for the neighbors of points as ``pairs_by`` prepares them.

    Args:
        similarity: by which they are near.
        dtype: that the points came in, which tells their rounding.

    """
    roundoff = unit_roundoff(dtype)

    def by_cosine(points: Tensor, k: int) -> Neighbours:
        found = nearest_neighbours(points, k)
        apart = found.distances > SAME_DIRECTION * roundoff
        return replace(found, distances=found.distances.where(apart, 0.0), roundoff=roundoff)

    def by_dot(points: Tensor, k: int) -> Neighbours:
        return replace(_nearest_by_dot(points, k), roundoff=roundoff)

    return {Similarity.EUCLIDEAN: nearest_neighbours, Similarity.COSINE: by_cosine, Similarity.DOT: by_dot}[similarity]


def dissimilarities(neighbours: Neighbours, similarity: Similarity, d: int, unit: float = 1.0) -> Tensor:
    """Return what orders neighbors, [n, k] float64 ascending: the distance, 1 less the cosine, or less the product.

    Args:
        neighbours: as found by ``pairs_by``.
        similarity: by which.
        d: dimensions of the points.
        unit: of the points.

    """
    if similarity is Similarity.EUCLIDEAN:
        return neighbours.distances * unit
    if similarity is Similarity.COSINE:
        return neighbours.distances.square() / 2
    less: Tensor = neighbours.distances - neighbours.sizes[:, None] * d**0.5
    return less * unit * unit


def _nearest_by_dot(x: Tensor, k: int) -> Neighbours:
    """Return the k others of greatest product with every one of points [n, d], float64.

    Distances are how far products fall short of |a| max |b|, which none exceeds. Sizes are that over sqrt(d): what the
    sum of d independent roundings in a product is relative to.
    """
    n = len(x)
    k = min(k, max(n - 1, 0))
    if k == 0:
        return nearest_neighbours(x, 1)
    own = lengths(x)
    bound = own * own.max()
    distances, indices = x.new_empty(n, k), torch.empty(n, k, dtype=torch.int64, device=x.device)
    for rows in torch.split(torch.arange(n, device=x.device), block_rows(n)):
        short = x.new_full((len(rows), -(-n // GROUP) * GROUP), math.inf)
        short[:, :n] = bound[rows, None] - x[rows] @ x.T
        short[torch.arange(len(rows)), rows] = math.inf
        distances[rows], indices[rows] = first_least(short, k)
    return Neighbours(distances.clamp(min=0), indices, bound / max(x.shape[1], 1) ** 0.5, unit_roundoff(x.dtype))
