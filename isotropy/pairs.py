"""Nearest neighbors and uniformity of a cloud from one product of each pair.

Cosine is the Euclidean distance of unit rows in float64; zero rows are left out, and directions equal up to rounding
count as duplicates. The dot product is not a distance: a row need not be nearest to itself, and long rows are near to
all. Its neighbors are exact up to float64 rounding.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import torch
from torch import Tensor

from isotropy.catalog import Similarity
from isotropy.cosine import unit_rows
from isotropy.neighbors import (
    NearestNeighbors,
    NeighborSearch,
    fast_precisions,
    first_equal_rows,
    nearest_neighbors,
)
from isotropy.points import lengths
from isotropy.products import block_rows, first_smallest, has_exact_products, unit_roundoff
from isotropy.score import Score
from isotropy.tiles import GROUP
from isotropy.uniformity import Directions, uniformity


@dataclass(frozen=True, eq=False)
class PairMeasures:
    """Nearest neighbors and uniformity of some rows."""

    distinct_rows: Tensor  # Rows that are the first of their equals, int64 in ascending order
    points: Tensor  # These rows, [len(distinct_rows), d]
    # Nearest among the distinct rows, because copies say nothing about a point's surroundings.
    neighbors: NearestNeighbors
    compute_uniformity: Callable[[], Score]

    @cached_property
    def uniformity(self) -> Score:
        """Uniformity of all rows, including copies."""
        return self.compute_uniformity()


def measure_euclidean_pairs(x: Tensor, k: int) -> PairMeasures:
    """Return ``measure_pairs`` by Euclidean distance, if possible with one product per pair for both results.

    Neighbors and uniformity need separate products if products are exact, if torch multiplies the points' dtype at
    lower precision, or if all points are equal. Raises ValueError for k < 1 or points that are not finite.
    """
    copy_counts = first_equal_rows(x).bincount(minlength=len(x))
    distinct = copy_counts.nonzero().squeeze(1)
    points = x if len(distinct) == len(x) else x[distinct]
    precisions = [precision for precision in fast_precisions(x.device) if precision != torch.bfloat16]
    search = NeighborSearch(points, k)
    dtype = search.points.dtype
    can_share_products = dtype in precisions and search.k
    # Centering subtracts the median, which is at most sqrt(2) times as long as the longest point, so it multiplies the
    # largest squared norm by at most (1 + sqrt(2))^2, which is less than 6.
    if not can_share_products or has_exact_products(search.points, 6 * float(search.lengths.max()) ** 2, dtype):
        return PairMeasures(distinct, points, nearest_neighbors(points, k), partial(uniformity, x))
    bounds = DirectionDistances(search.points, search.lengths, copy_counts[distinct] * (search.lengths > 0))
    search.search_tiles(bounds.tile, dtype, bounds.bound_limit)
    uniformity_score = bounds.directions.uniformity()
    return PairMeasures(distinct, points, search.search_unsettled(precisions), lambda: uniformity_score)


class DirectionDistances:
    """Squared distances of points [n, d] as (r - r')^2 + r r' ||u - u'||^2, with lengths r [n] and directions u.

    Directions are centered, so that neither a distant mean nor unequal lengths cost digits. Points are of ordinary size
    (``isotropy.neighbors.SAFE_MAGNITUDE``); ``copy_counts`` counts each, as in ``isotropy.uniformity.Directions``.
    """

    def __init__(self, points: Tensor, lengths: Tensor, copy_counts: Tensor) -> None:
        self.directions = Directions(points, copy_counts)
        self._d = points.shape[1]
        self._dtype = points.dtype
        self._lengths = lengths
        self._offsets = self._lengths - self._lengths.mean()
        self._rounded_lengths, self._rounded_offsets = self._lengths.to(points), self._offsets.to(points)
        self._negative_half_lengths = self._rounded_lengths / -2

    def tile(self, rows: slice, columns: slice) -> Tensor:
        """Return squared distances [rows, columns] in a buffer, valid until the next call. Adds to the uniformity."""
        exponents = self.directions.add_tile(rows, columns)
        squares = self.directions.buffer(1, rows, columns)
        torch.sub(self._rounded_offsets[columns], self._rounded_offsets[rows, None], out=squares).square_()
        return squares.addcmul_(exponents.mul_(self._negative_half_lengths[columns]), self._rounded_lengths[rows, None])

    def bound_limit(self, rows: Tensor, squared_reach: Tensor) -> Tensor:
        """Return, for each row, the most that ``tile`` may return for a squared distance of at most squared_reach.

        Let eps be the roundoff of the products, eps64 that of float64, s = r - mean r, R the squared reach, and i a
        row. A point j at a squared distance of at most R has r_j from r_i - sqrt(R) to r_i + sqrt(R).

        - Lengths: s_i - s_j is off by at most eps (|s_i| + |s_j|), and r by a share 2 (d + 8) eps64 of itself.
          Directions: u_i - u_j is off by at most 2 (d + 8) eps64. The root of a squared distance is the norm of
          (s_i - s_j, sqrt(r_i r_j) (u_i - u_j)). So it is off by at most 2 eps |s_i| + 4 (d + 8) eps64 (r_i + r_j), and
          by a share eps + 2 (d + 8) eps64 of itself.
        - Products are of vectors a, twice the centered directions, and give the exponents -2 ||u_i - u_j||^2. With
          h = ||a||^2 / 2, an exponent is off by at most ((d + 16) eps + d eps64) (h_i + h_j) (Higham 2002, section
          3.1), and a squared distance by r_i r_j / 2 times that. ||a_j|| is at most ||a_i|| + 2 ||u_i - u_j||, and
          r_i r_j ||u_i - u_j||^2 at most R.
        - The factor covers twice the share of the root, and the roundings of a tile. Each of d + 1 products may
          underflow, which 64 times the smallest normal number covers.
        """
        eps, eps64, d = unit_roundoff(self._dtype), unit_roundoff(torch.float64), self._d
        radius, length = squared_reach.sqrt(), self._lengths[rows]
        max_length, min_length = length + radius, (length - radius).clamp(min=0)
        root_error = 2 * eps * self._offsets[rows].abs() + 8 * (d + 8) * eps64 * max_length
        row_halves = self.directions.negative_half_squares[rows].double().abs()
        direction_gap = (radius / (length * min_length).sqrt()).nan_to_num(2).clamp(max=2)
        largest_half = ((2 * row_halves).sqrt() + 2 * direction_gap).square() / 2
        # 1.01 covers second-order terms.
        product_error = 1.01 * ((d + 16) * eps + d * eps64) * (row_halves + largest_half) * length * max_length / 2
        factor = 1 + 16 * eps + 4 * (d + 8) * eps64
        underflow = 64 * (d + 1) * torch.finfo(self._dtype).tiny
        limit: Tensor = ((radius + root_error).square() + product_error) * factor + underflow
        return limit


SAME_DIRECTION = 4  # Maximum roundings between two unit rows of the same direction

NearestSearch = Callable[[Tensor, int], NearestNeighbors]


def measure_pairs(x: Tensor, k: int, similarity: Similarity) -> PairMeasures:
    """Return the k nearest neighbors among distinct points, and the uniformity of all points [n, d].

    By cosine, rows are scaled to length 1 and zero rows left out. Raises ValueError for k < 1 or points that are not
    finite.
    """
    if similarity is Similarity.EUCLIDEAN:
        return measure_euclidean_pairs(x, k)
    distinct, _ = index_distinct_rows(x, similarity)
    points = x[distinct].double()
    points = unit_rows(points) if similarity is Similarity.COSINE else points
    return PairMeasures(distinct, points, choose_search(similarity, x.dtype)(points, k), partial(uniformity, x))


def index_distinct_rows(x: Tensor, similarity: Similarity) -> tuple[Tensor, Tensor]:
    """Return the first of each set of equal points [n, d], int64 ascending, and each point's index among them, [n].

    Zero rows, which have no neighbors by cosine, are left out there; their index is the number of the others.
    """
    firsts = first_equal_rows(x)
    if similarity is Similarity.COSINE:
        firsts = firsts.where(x.any(1), len(x))
    distinct, indices = torch.unique(firsts, return_inverse=True)
    return distinct[distinct < len(x)], indices


def choose_search(similarity: Similarity, dtype: torch.dtype) -> NearestSearch:
    """Return the neighbor search for points prepared by ``measure_pairs``; the original ``dtype`` sets the rounding."""
    roundoff = unit_roundoff(dtype)

    def by_cosine(points: Tensor, k: int) -> NearestNeighbors:
        neighbors = nearest_neighbors(points, k)
        is_distinct = neighbors.distances > SAME_DIRECTION * roundoff
        return replace(neighbors, distances=neighbors.distances.where(is_distinct, 0.0), roundoff=roundoff)

    return {
        Similarity.EUCLIDEAN: nearest_neighbors,
        Similarity.COSINE: by_cosine,
        Similarity.DOT: lambda points, k: replace(_nearest_by_dot(points, k), roundoff=roundoff),
    }[similarity]


def dissimilarities(neighbors: NearestNeighbors, similarity: Similarity, d: int, unit: float = 1.0) -> Tensor:
    """Return distances of neighbors in the file's units, 1 - cosine, or minus the dot product, float64 [n, k].

    Points [n, d] are in units of ``unit``.
    """
    if similarity is Similarity.EUCLIDEAN:
        return neighbors.distances * unit
    if similarity is Similarity.COSINE:
        return neighbors.distances.square() / 2
    # The search by dot product sorts by |a| max |b| - ab, and ``sizes`` are |a| max |b| / sqrt(d).
    negative_products: Tensor = neighbors.distances - neighbors.sizes[:, None] * d**0.5
    return negative_products * unit * unit


def _nearest_by_dot(x: Tensor, k: int) -> NearestNeighbors:
    """Return the k neighbors with the largest dot product for each of points [n, d], float64.

    Distances are |a| max |b| minus the product; sizes are |a| max |b| / sqrt(d), the scale of rounding.
    """
    n = len(x)
    k = min(k, max(n - 1, 0))
    if k == 0:
        return nearest_neighbors(x, 1)  # empty, because there are no other rows
    norms = lengths(x)
    bound = norms * norms.max()
    distances, indices = x.new_empty(n, k), torch.empty(n, k, dtype=torch.int64, device=x.device)
    for rows in torch.split(torch.arange(n, device=x.device), block_rows(n)):
        shortfalls = x.new_full((len(rows), -(-n // GROUP) * GROUP), math.inf)
        shortfalls[:, :n] = bound[rows, None] - x[rows] @ x.T
        shortfalls[torch.arange(len(rows)), rows] = math.inf
        distances[rows], indices[rows] = first_smallest(shortfalls, k)
    return NearestNeighbors(distances.clamp(min=0), indices, bound / max(x.shape[1], 1) ** 0.5, unit_roundoff(x.dtype))
