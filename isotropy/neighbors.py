"""Exact nearest neighbors: searched by matrix products, measured by differences, certified row by row.

Standard errors come from searching each block of rows alone, because points share distances with their neighbors: the
spread of the logarithms of independent estimates over sqrt(B) is the relative error for all rows (batch means).
Estimates depend on n, so compare clouds at the largest of ``SIZES`` that both have.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from math import log
from statistics import fmean

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.points import at_least_float32, lengths, require_points, scaled
from isotropy.products import BoundLimit, Products, block_rows, exact_bound_limit, measure_candidates, unit_roundoff
from isotropy.score import Score
from isotropy.tiles import find_smallest_bounds

# Names of the processor features that multiply bfloat16 in tiles or in vectors.
FAST_BFLOAT16 = ("amx_bf16", "avx512_bf16")
# Coordinate roundings that may separate two equal distances; rotated lattices and codes had at most 3.2.
ROUNDINGS = 4
HASHED_ROWS = 256  # Rows that are copied and hashed at once
# Coordinates up to this, and down to its inverse, have squares well within the range of float32.
SAFE_MAGNITUDE = 2.0**30
# With fewer points and more dimensions than these, measuring the candidates of bfloat16 costs more than it saves:
# 2,000 points took 0.97 s by bfloat16 and 0.60 s by float32 in 4,096 dimensions, 0.11 s and 0.14 s in 768.
ROUGH_ROWS = 10_000
ROUGH_DIMENSIONS = 1024
SPARE_CANDIDATES = 9  # Candidates beyond k that allow for rounding in tiles of precise products; each costs merges
# Dimensions per extra candidate: with more dimensions, rounding grows and distances differ less.
DIMENSIONS_PER_SPARE = 256


@dataclass(frozen=True)
class NearestNeighbors:
    """The k nearest neighbors of n points by Euclidean distance; ties go to the first row."""

    distances: Tensor  # [n, k] float64, nearest first
    indices: Tensor  # [n, k] int64, rows of the cloud
    sizes: Tensor  # [n] float64, the root mean square of each point's coordinates, the scale of their rounding
    roundoff: float  # Unit roundoff of the dtype the points came in

    def take_nearest(self, k: int) -> "NearestNeighbors":
        """Return the k nearest of these; raise ValueError if fewer were searched."""
        if not 1 <= k <= self.indices.shape[1]:
            raise ValueError(
                f"Expected k from 1 to {self.indices.shape[1]}, as many neighbors as were searched, got {k}: "
                "search for as many as are needed."
            )
        return replace(self, distances=self.distances[:, :k], indices=self.indices[:, :k])

    def distance_error(self, roundoff: float) -> Tensor:
        """Return how far apart equal distances may be due to rounded coordinates, float64 [n, k].

        Roundings of coordinates are independent, and only their part along the difference of two points counts. So the
        error is about one rounding of a typical coordinate, for any d, plus that of the distance.
        """
        return ROUNDINGS * (roundoff * self.sizes[:, None] + unit_roundoff(torch.float64) * self.distances)


def nearest_neighbors(x: Tensor, k: int) -> NearestNeighbors:
    """Return the k nearest neighbors of each of points [n, d], or all n - 1 if k is larger; duplicates are neighbors.

    The result is that of brute force. Products in the fastest precision yield candidates and a bound that all others
    exceed; candidates are measured in float64, and unsettled rows are searched again in higher precision. Memory is a
    few copies of the points and some blocks of ``isotropy.products.MAX_BOUNDS`` numbers. Raises ValueError for k < 1 or
    points that are not finite.
    """
    search = NeighborSearch(x, k)
    precisions = fast_precisions(x.device)
    if precisions[0] == torch.bfloat16 and len(x) < ROUGH_ROWS and x.shape[1] > ROUGH_DIMENSIONS:
        precisions = precisions[1:]
    if search.k and precisions[0] != torch.bfloat16:
        products = Products(search.points, precisions[0], search.candidates)
        if products.has_tiles:
            search.search_tiles(products.tile, products.precision)
            precisions = precisions[1:] or precisions  # float64, the last, settles what its tiles did not
    return search.search_unsettled(precisions)


class NeighborSearch:
    """A search for the neighbors of points [n, d]: those found so far, and the rows that are not settled yet."""

    def __init__(self, x: Tensor, k: int) -> None:
        require_points(x)
        if k < 1:
            raise ValueError(f"Expected at least 1 neighbor, got k = {k}: search for one or more.")
        self.points, self._scale = scaled(at_least_float32(x.detach()), SAFE_MAGNITUDE)
        n = len(x)
        self.k = min(k, max(n - 1, 0))
        self.candidates = min(2 * self.k + 12, n - 1)  # Measured first for each row if products may be rough
        self._roundoff = unit_roundoff(x.dtype)
        self._distances = torch.empty(n, self.k, dtype=torch.float64, device=x.device)
        self._indices = torch.empty(n, self.k, dtype=torch.int64, device=x.device)
        self._unsettled = torch.arange(n if self.k else 0, device=x.device)

    @cached_property
    def lengths(self) -> Tensor:
        return lengths(self.points)

    def search_tiles(
        self,
        compute_tile: Callable[[slice, slice], Tensor],
        dtype: torch.dtype,
        bound_limit: BoundLimit = exact_bound_limit,
    ) -> None:
        """Search all rows by rounded squared distances, or by lower bounds of the exact ones.

        ``compute_tile`` returns them for a block of rows and columns; ``bound_limit`` is as in ``measure_candidates``.
        """
        n = len(self.points)
        candidates_per_row = min(self.k + SPARE_CANDIDATES + self.points.shape[1] // DIMENSIONS_PER_SPARE, n - 1)
        bounds, candidates = find_smallest_bounds(n, candidates_per_row, dtype, self.points.device, compute_tile)
        unsettled = []
        for rows in torch.split(self._unsettled, block_rows(n)):
            nearest = measure_candidates(self.points, rows, bounds[rows], candidates[rows], self.k, bound_limit)
            self._distances[rows], self._indices[rows] = nearest.distances, nearest.columns
            unsettled.append(rows[~nearest.settled])
        self._unsettled = torch.cat(unsettled)

    def search_unsettled(self, precisions: Sequence[torch.dtype]) -> NearestNeighbors:
        """Search unsettled rows in one precision after the other; the last must be float64."""
        n, d = self.points.shape
        for precision in precisions:
            if len(self._unsettled) == 0:
                break
            products = Products(self.points, precision, self.candidates)
            unsettled = []
            for rows in torch.split(self._unsettled, block_rows(n)):
                self._distances[rows], self._indices[rows], settled = products.nearest(rows, self.k)
                unsettled.append(rows[~settled])
            self._unsettled = torch.cat(unsettled)
        sizes = self.lengths * (self._scale / max(d, 1) ** 0.5)
        return NearestNeighbors(self._distances * self._scale, self._indices, sizes, self._roundoff)


def distinct_rows(x: Tensor) -> Tensor:
    """Return ascending int64 indices of the first of each set of equal points [n, d]; -0.0 equals 0.0."""
    firsts = first_equal_rows(x)
    return (firsts == torch.arange(len(firsts), device=x.device)).nonzero().squeeze(1)


def first_equal_rows(x: Tensor) -> Tensor:
    """Return the index of the first equal point for each of points [n, d], int64 [n]; -0.0 equals 0.0."""
    require_points(x)
    first_by_hash: dict[bytes, int] = {}
    firsts: list[int] = []
    for chunk in torch.split(x.detach(), HASHED_ROWS):
        # Adding 0.0 turns -0.0 into 0.0, so that equal numbers have equal bytes.
        rows = (at_least_float32(chunk) + 0.0).cpu().numpy()
        # Keep 128-bit hashes, because the bytes of all rows would take more memory than the points.
        for row in rows:
            firsts.append(first_by_hash.setdefault(blake2b(row.tobytes(), digest_size=16).digest(), len(firsts)))
    return torch.tensor(firsts, dtype=torch.int64, device=x.device)


def fast_precisions(device: torch.device) -> list[torch.dtype]:
    """Return precisions for products, float64 last; bfloat16 first where the CPU multiplies it 4 to 5 times as fast."""
    precisions = [torch.float64]
    probe = torch.full((64, 64), 1 + 2**-12, device=device)
    # Some settings of torch make float32 products less precise, which the bounds do not allow for.
    if float((probe @ probe)[0, 0]) > 64 * (1 + 2**-12):
        precisions.insert(0, torch.float32)
    capabilities = torch.cpu.get_capabilities() if device.type == "cpu" else {}
    if any(capabilities.get(name, False) for name in FAST_BFLOAT16):
        precisions.insert(0, torch.bfloat16)
    return precisions


# Numbers of distinct rows for which estimates are stored, so that clouds of different sizes can be compared.
SIZES = (1000, 2000, 5000)
MIN_ROWS = 1000  # Distinct rows below which there is no error, because estimates from smaller blocks are too rough


class BlockNeighbors:
    """The k nearest neighbors among distinct points [n, d], among the first of them, and within blocks [n].

    The points are in random order. ``all_neighbors`` are those among all points, if already searched.
    """

    def __init__(
        self,
        points: Tensor,
        blocks: NDArray[np.int64],
        k: int,
        all_neighbors: NearestNeighbors | None = None,
    ) -> None:
        self._points = points
        self._blocks = torch.from_numpy(blocks)
        self._k = k
        self._all_neighbors = all_neighbors
        self._by_size: dict[int, list[NearestNeighbors]] = {}

    @cached_property
    def all_neighbors(self) -> NearestNeighbors:
        return self._all_neighbors or nearest_neighbors(self._points, self._k)

    def score(self, measure: Callable[[NearestNeighbors], Score]) -> Score:
        return self._with_error(measure, len(self._points), measure(self.all_neighbors))

    def scores_by_size(self, measure: Callable[[NearestNeighbors], Score]) -> dict[int, Score]:
        """Return a measure of the first points with its standard error, by how many: those of ``SIZES`` there are."""
        sizes = [size for size in SIZES if size <= len(self._points)]
        return {size: self._with_error(measure, size, measure(self._neighbors_within(size)[0])) for size in sizes}

    def _with_error(self, measure: Callable[[NearestNeighbors], Score], size: int, score: Score) -> Score:
        values = [] if size < MIN_ROWS else [measure(block).value for block in self._neighbors_within(size)[1:]]
        logarithms = [log(value) for value in values if value]
        if score.value is None or len(logarithms) < max(len(values), 2):
            return score.with_error(())
        center, B = fmean(logarithms), len(logarithms)
        return score.with_error([score.value * (logarithm - center) / (B * (B - 1)) ** 0.5 for logarithm in logarithms])

    def _neighbors_within(self, size: int) -> list[NearestNeighbors]:
        """Return the neighbors within the first ``size`` points, then within each block of them."""
        if size not in self._by_size:
            points, blocks = self._points[:size], self._blocks[:size]
            all_neighbors = self.all_neighbors if size == len(self._points) else nearest_neighbors(points, self._k)
            by_block = [nearest_neighbors(points[blocks == block], self._k) for block in range(int(blocks.max()) + 1)]
            self._by_size[size] = [all_neighbors, *by_block]
        return self._by_size[size]
