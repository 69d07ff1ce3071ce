"""Exact nearest neighbours of a cloud: searched by matrix products, measured by differences, certified row by row."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from isotropy.points import at_least_float32, require_points, scaled
from isotropy.spectrum import CHUNK_ROWS

BLOCK = 10_000_000
"""Bounds held at once, those of 500 rows to all of 20,000: 40 MB in float32."""

PAIR_NUMBERS = 1_000_000
"""Numbers in the differences taken at once: more leave the caches, and with fewer threads wait for each other."""

GROUP = 20
"""Columns of which only the least is looked at first."""

CENTRE_ROWS = 256
"""Rows whose median all are shifted by."""


@dataclass(frozen=True)
class Neighbours:
    """The k nearest other points of each of n points, by Euclidean distance; among equally near ones the first rows."""

    distances: Tensor
    """[n, k] float64, nearest first."""
    indices: Tensor
    """[n, k] int64, rows of the cloud."""

    def first(self, k: int) -> Neighbours:
        """Return the k nearest of these.

        Raises:
            ValueError: fewer were searched.

        """
        if not 1 <= k <= self.indices.shape[1]:
            raise ValueError(
                f"Expected k from 1 to {self.indices.shape[1]}, as many neighbours as were searched, got {k}: "
                "search for as many as are needed."
            )
        return Neighbours(self.distances[:, :k], self.indices[:, :k])


def nearest_neighbours(x: Tensor, k: int, progress: Callable[[int], None] | None = None) -> Neighbours:
    """Return the k nearest neighbours of every one of points [n, d]; all n - 1 others if there are no more.

    A point is not its own neighbour, but a duplicate of it is, at distance 0. The result is that of brute force:
    matrix products, in as low a precision as the machine multiplies fast, yield some candidates for each row, and a
    distance that all others exceed. The candidates are measured by differences, added up in float64. Rows for which
    this settles nothing are searched again in a higher precision, and at last one by one: those with many neighbours
    at the same distance, or in clusters far tighter than their distance from the median of the points.
    The memory needed is a few copies of the points, and ``BLOCK`` numbers.

    Args:
        x: points [n, d] of any floating dtype, on a device that has float64.
        k: number of neighbours, at least 1.
        progress: called now and then with the number of rows that are done.

    Raises:
        ValueError: ``x`` is not a floating tensor [n, d], it holds NaN or infinity, or k is below 1.

    """
    require_points(x)
    if k < 1:
        raise ValueError(f"Expected at least 1 neighbour, got k = {k}: ask for one or more.")
    points, scale = scaled(at_least_float32(x.detach()))
    n = len(points)
    k = min(k, max(n - 1, 0))
    distances = torch.empty(n, k, dtype=torch.float64, device=x.device)
    indices = torch.empty(n, k, dtype=torch.int64, device=x.device)
    left = torch.arange(n if k else 0, device=x.device)
    done = 0
    for search in _searches(points, k):
        unsettled = left[:0]
        for rows in torch.split(left, _block_rows(n)):
            distances[rows], indices[rows], settled = search.nearest(rows, k)
            unsettled = torch.cat([unsettled, rows[~settled]])
            done += int(settled.sum())
            if progress is not None:
                progress(done)
        left = unsettled
        if len(left) == 0:
            break
    return Neighbours(distances * scale, indices)


def distinct_rows(x: Tensor) -> Tensor:
    """Return which of points [n, d] are the first of their equals, int64 indices in ascending order; -0.0 equals 0.0.

    Raises:
        ValueError: ``x`` is not a floating tensor [n, d].

    """
    require_points(x)
    first: dict[bytes, int] = {}
    # 0.0 is added because it makes 0.0 of -0.0: then equal numbers have equal bytes.
    for index, row in enumerate((at_least_float32(x.detach()) + 0.0).cpu().numpy()):
        first.setdefault(row.tobytes(), index)
    return torch.tensor(list(first.values()), dtype=torch.int64, device=x.device)


def _block_rows(n: int) -> int:
    return max(BLOCK // max(n, 1), 1)


def _searches(points: Tensor, k: int) -> Iterator[_Products | _BruteForce]:
    """Yield the ways to search, the fastest first; the last settles every row."""
    candidates = 2 * k + 12
    if candidates < len(points) - 1:
        for precision in _precisions(points.device):
            yield _Products(points, precision, candidates)
    yield _BruteForce(points)


def _precisions(device: torch.device) -> list[torch.dtype]:
    """Return the precisions in which to multiply; bfloat16 where a CPU has tiles for it: 5 times as fast as float32."""
    precisions = [torch.float64]
    one = torch.full((64, 64), 1 + 2**-12, device=device)
    # Settings of torch make float32 products less precise than float32, and the bounds would not know.
    if float((one @ one)[0, 0]) > 64 * (1 + 2**-12):
        precisions.insert(0, torch.float32)
    if device.type == "cpu" and torch.cpu.get_capabilities().get("amx_bf16", False):
        precisions.insert(0, torch.bfloat16)
    return precisions


def _unit_roundoff(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps / 2


def _lengths(x: Tensor) -> Tensor:
    """Return the norms of the rows of a matrix [n, d], added up in float64."""
    lengths: Tensor = torch.linalg.vector_norm(x, dim=1, dtype=torch.float64)
    return lengths


class _BruteForce:
    """All distances of a row, by differences in float64."""

    def __init__(self, points: Tensor) -> None:
        self._points = points.double()

    def nearest(self, rows: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return distances and indices [rows, k], and that all rows are settled."""
        distances = torch.cdist(self._points[rows], self._points, compute_mode="donot_use_mm_for_euclid_dist")
        distances[torch.arange(len(rows), device=rows.device), rows] = math.inf
        distances, indices = distances.sort(dim=1, stable=True)
        return distances[:, :k], indices[:, :k], torch.ones_like(rows, dtype=torch.bool)


class _Products:
    """Lower bounds of all squared distances by matrix products in one precision; candidates measured by differences.

    Of a, a centred point, the precision keeps b with |a - b| <= rho |a|. With u the unit roundoff of the sums, u' that
    of the stored product fl(b b'), the latter is off by at most ((1 + rho)^2 (1 + d u + u') - 1) |a||a'| and what
    underflows (Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 3.1). So, as |a||a'| is at most
    half of |a|^2 + |a'|^2,

        |a - a'|^2 >= (1 - error) (|a|^2 + |a'|^2) - 2 fl(b b') - underflow.
    """

    def __init__(self, points: Tensor, precision: torch.dtype, candidates: int) -> None:
        n, d = points.shape
        exact = torch.promote_types(points.dtype, precision)
        sums = torch.promote_types(precision, torch.float32)
        # The median of some rows lies among most of the points, however far away single ones are.
        centre = points[:: -(-n // CENTRE_ROWS)].median(dim=0).values
        self._kept = points.new_empty(n, d, dtype=precision)
        norms = points.new_empty(n, dtype=torch.float64)
        rho = 0.0
        for start in range(0, n, CHUNK_ROWS):
            rows = slice(start, start + CHUNK_ROWS)
            centred = points[rows].to(exact) - centre
            kept = centred.to(precision)
            self._kept[rows] = kept
            norms[rows] = _lengths(centred)
            rho = max(rho, float((_lengths(centred - kept) / norms[rows]).nan_to_num(0).max()))
        rho += _unit_roundoff(exact)
        # 8: what rounds the norms and their sum with the product. 1.01: for terms of second order.
        rounding = 1.01 * (_unit_roundoff(precision) + (d + 8) * _unit_roundoff(sums))
        error = (1 + rho) ** 2 * (1 + rounding) - 1
        self._least = (1 - error) * norms.square() - 64 * (d + 1) * torch.finfo(sums).tiny
        self._least_in_sums = self._least.to(sums)
        self._margin = 1 + 8 * (_unit_roundoff(points.dtype) + d * _unit_roundoff(torch.float64))
        self._points = points
        self._candidates = candidates
        self._products = points.new_empty(_block_rows(n), n, dtype=precision)
        self._bounds = points.new_full((_block_rows(n), -(-n // GROUP) * GROUP), math.inf, dtype=sums)

    def nearest(self, rows: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return distances and indices [rows, k], and for which rows they are settled."""
        bounds, columns = self._candidates_of(rows)
        distances = torch.full_like(bounds, math.inf)
        measured = torch.zeros_like(bounds, dtype=torch.bool)
        measured[:, :k] = True
        self._measure(distances, measured, rows, columns)
        reach = distances[:, :k].amax(1, keepdim=True).square() * self._margin
        self._measure(distances, (bounds <= reach) & ~measured, rows, columns)

        columns, order = columns.sort(dim=1)
        distances, order = distances.gather(1, order).sort(dim=1, stable=True)
        settled = distances[:, k - 1].square() * self._margin < bounds[:, -1]
        return distances[:, :k], columns.gather(1, order)[:, :k], settled

    def _candidates_of(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the least bounds of squared distances, ascending float64, and their columns, [rows, candidates]."""
        n = len(self._points)
        products = torch.mm(self._kept[rows] * -2, self._kept.T, out=self._products[: len(rows)])
        bounds = self._bounds[: len(rows)]
        # Two steps, because adding bfloat16 to float32 takes three times as long.
        bounds[:, :n].copy_(products).add_(self._least_in_sums)
        bounds[torch.arange(len(rows), device=rows.device), rows] = math.inf
        least, columns = _least(bounds, self._candidates)
        return least.double() + self._least[rows, None], columns

    def _measure(self, distances: Tensor, wanted: Tensor, rows: Tensor, columns: Tensor) -> None:
        """Fill in the distances [rows, candidates] that are wanted, a mask of the same shape."""
        row, _ = wanted.nonzero(as_tuple=True)
        take = partial(self._points.index_select, 0)
        pairs = max(PAIR_NUMBERS // max(self._points.shape[1], 1), 1)
        measured = [
            _lengths(take(i).sub_(take(j)))
            for i, j in zip(torch.split(rows[row], pairs), torch.split(columns[wanted], pairs), strict=True)
        ]
        distances[wanted] = torch.cat(measured)


def _least(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the least values of every row of [rows, columns], ascending, and their columns, [rows, count].

    The least values lie in the groups with the least minima, one group for each: a minimum costs a tenth of a topk.
    """
    groups = x.view(len(x), GROUP, -1)
    if groups.shape[2] < count:
        least, columns = x.topk(count, largest=False)
        return least, columns
    chosen = groups.amin(1).topk(count, largest=False, sorted=False).indices
    members = groups.gather(2, chosen[:, None, :].expand(-1, GROUP, -1)).flatten(1)
    least, place = members.topk(count, largest=False)
    return least, place // count * groups.shape[2] + chosen.gather(1, place % count)
