"""Nearest points by matrix products in one precision: lower bounds select candidates, differences measure them."""

import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import NamedTuple

import torch
from torch import Tensor

from isotropy.distances import center_of
from isotropy.spectrum import CHUNK_ROWS
from isotropy.tiles import GROUP, TILE_ROWS, smallest_in_rows

MAX_BOUNDS = 10_000_000  # Maximum bounds held at once, such as of 500 rows to all of 20,000 (40 MB in float32)
EXACT_ROWS = 64  # Points checked for exactness at once
PAIR_NUMBERS = 100_000  # Numbers in the differences computed at once; more would leave the cache
MAX_POWER = 60  # Units tried for exactness are no finer than 2^-60, whose squares are normal numbers of float32

BoundLimit = Callable[[Tensor, Tensor], Tensor]


def exact_bound_limit(_: Tensor, squared_reach: Tensor) -> Tensor:
    """Return the squared reach itself: exact bounds need no margin."""
    return squared_reach


def unit_roundoff(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps / 2


def block_rows(n: int) -> int:
    """Return the number of rows whose distance bounds to n points fit in memory at once."""
    return max(min(MAX_BOUNDS // max(n, 1), n), 1)


class Products:
    """Lower bounds of squared distances of points [n, d] by matrix products in one precision; candidates are measured.

    For a centered point a the precision holds b with |a - b| <= rho |a|. With unit roundoffs u of sums and u' of stored
    products (Higham 2002, section 3.1), |a - a'|^2 >= (1 - error) (|a|^2 + |a'|^2) - 2 fl(b b') - underflow. Where
    coordinates are multiples of one unit and squared distances integers that the precision holds, the bounds are exact,
    which settles the many ties of binary, one-hot and counted features. Points are float32 or float64 of ordinary size
    (``isotropy.neighbors.SAFE_MAGNITUDE``); float64 products settle every row; ``candidates`` is at most n - 1.
    """

    def __init__(self, points: Tensor, precision: torch.dtype, candidates: int) -> None:
        n, d = points.shape
        exact_dtype = torch.promote_types(points.dtype, precision)
        sum_dtype = torch.promote_types(precision, torch.float32)
        center = center_of(points)
        self._rounded_points = points.new_empty(n, d, dtype=precision)
        squared_norms = points.new_empty(n, dtype=torch.float64)
        rho = 0.0
        for start in range(0, n, CHUNK_ROWS):
            rows = slice(start, start + CHUNK_ROWS)
            centered = points[rows].to(exact_dtype) - center
            rounded = centered.to(precision)
            self._rounded_points[rows] = rounded
            squared_norms[rows] = _squared_norms(centered)
            if precision != exact_dtype:
                squared_errors = (_squared_norms(centered - rounded) / squared_norms[rows]).nan_to_num(0)
                rho = max(rho, float(squared_errors.max()) ** 0.5)
        self._points = points
        self.precision = precision
        self._candidates = candidates
        self._is_float64 = precision == torch.float64
        self._is_exact = sum_dtype == precision and has_exact_products(points, float(squared_norms.max()), precision)
        # Bound = product + one term per point. The term is the point's squared norm minus the rounding error.
        if self._is_exact:
            self._norm_terms = squared_norms
        else:
            rho += unit_roundoff(exact_dtype)
            # 8 covers the rounding of squared norms and of their sum with the product, 1.01 second-order terms.
            rounding = 1.01 * (unit_roundoff(precision) + (d + 8) * unit_roundoff(sum_dtype))
            error = (1 + rho) ** 2 * (1 + rounding) - 1
            self._norm_terms = (1 - error) * squared_norms - 64 * (d + 1) * torch.finfo(sum_dtype).tiny
        self._rounded_norm_terms = self._norm_terms.to(sum_dtype)
        self.has_tiles = not self._is_exact and sum_dtype == precision  # Whether ``tile`` can be called

    def tile(self, rows: slice, columns: slice) -> Tensor:
        """Return lower bounds of squared distances [rows, columns], in a buffer that the next tile overwrites."""
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        bounds = self._tile_buffer.view(-1)[: shape[0] * shape[1]].view(shape)
        torch.addmm(
            self._rounded_norm_terms[columns],
            self._rounded_points[rows],
            self._rounded_points[columns].T,
            alpha=-2,
            out=bounds,
        )
        return bounds.add_(self._rounded_norm_terms[rows, None])

    @cached_property
    def _tile_buffer(self) -> Tensor:
        return self._rounded_points.new_empty(TILE_ROWS, TILE_ROWS)

    @cached_property
    def _product_buffer(self) -> Tensor:
        n = len(self._points)
        return self._rounded_points.new_empty(block_rows(n), n)

    @cached_property
    def _bound_buffer(self) -> Tensor:
        n = len(self._points)
        return self._rounded_norm_terms.new_full((block_rows(n), -(-n // GROUP) * GROUP), math.inf)

    def nearest(self, rows: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return distances and indices [rows, k], ascending, and a mask of settled rows."""
        bounds = self._bounds_of(rows)
        if self._is_exact:
            squares, columns = first_smallest(bounds, k)
            squares = squares.double() + self._norm_terms[rows, None]
            return squares.sqrt(), columns, torch.ones_like(rows, dtype=torch.bool)
        candidate_bounds, columns = smallest_in_rows(bounds, self._candidates)
        candidate_bounds = candidate_bounds.double() + self._norm_terms[rows, None]
        nearest = measure_candidates(self._points, rows, candidate_bounds, columns, k)
        if self._is_float64 and not nearest.settled.all():
            unsettled = (~nearest.settled).nonzero().squeeze(1)
            lower_bounds = bounds[unsettled].double() + self._norm_terms[rows[unsettled], None]
            is_candidate = lower_bounds <= nearest.squared_reach[unsettled, None]
            squares = torch.full_like(is_candidate, math.inf, dtype=torch.float64)
            columns = torch.arange(is_candidate.shape[1], device=is_candidate.device).expand_as(is_candidate)
            _fill_squared_distances(self._points, squares, is_candidate, rows[unsettled], columns)
            squares, nearest.columns[unsettled] = first_smallest(squares, k)
            nearest.distances[unsettled] = squares.sqrt()
            nearest.settled[:] = True
        return nearest.distances, nearest.columns, nearest.settled

    def _bounds_of(self, rows: Tensor) -> Tensor:
        """Return lower bounds of squared distances minus the squared norm of the row, padded with infinity."""
        n = len(self._points)
        points = self._rounded_points
        products = torch.mm(points[rows] * -2, points.T, out=self._product_buffer[: len(rows)])
        bounds = self._bound_buffer[: len(rows)]
        # Two steps, because adding bfloat16 to float32 takes three times as long.
        bounds[:, :n].copy_(products).add_(self._rounded_norm_terms)
        bounds[torch.arange(len(rows), device=rows.device), rows] = math.inf
        return bounds


class MeasuredCandidates(NamedTuple):
    """Nearest candidates of some rows."""

    distances: Tensor  # [rows, k] float64, nearest first; ties go to the first row
    columns: Tensor  # [rows, k] int64
    settled: Tensor  # [rows], whether no other point can be as near
    squared_reach: Tensor  # [rows] float64, squared distance of the k-th plus its rounding: no point beyond is as near


def measure_candidates(
    points: Tensor, rows: Tensor, bounds: Tensor, columns: Tensor, k: int, bound_limit: BoundLimit = exact_bound_limit
) -> MeasuredCandidates:
    """Return the k nearest of each of ``rows`` among candidates, measured by differences in float64.

    ``bounds`` [rows, candidates], ascending, are rounded squared distances to ``columns``, or lower bounds; no other
    point has one below the last. ``bound_limit`` returns the largest that a point within a squared reach may have.
    """
    margin = 1 + 8 * (points.shape[1] + 1) * unit_roundoff(torch.float64)
    squares = torch.full_like(bounds, math.inf, dtype=torch.float64)
    is_first = torch.zeros_like(bounds, dtype=torch.bool)
    is_first[:, :k] = True
    _fill_squared_distances(points, squares, is_first, rows, columns)
    squared_reach = bound_limit(rows, squares[:, :k].amax(1) * margin)
    _fill_squared_distances(points, squares, (bounds <= squared_reach[:, None]) & ~is_first, rows, columns)

    columns, order = columns.sort(dim=1)
    squares, order = squares.gather(1, order).sort(dim=1, stable=True)
    squares, columns = squares[:, :k], columns.gather(1, order)[:, :k]
    squared_reach = squares[:, -1] * margin
    return MeasuredCandidates(squares.sqrt(), columns, bound_limit(rows, squared_reach) < bounds[:, -1], squared_reach)


def _fill_squared_distances(points: Tensor, squares: Tensor, mask: Tensor, rows: Tensor, columns: Tensor) -> None:
    """Write the squared distance to point ``columns[i, j]`` of point ``rows[i]`` into ``squares`` where ``mask``."""
    row_indices, _ = mask.nonzero(as_tuple=True)
    select_points = partial(points.index_select, 0)
    n_pairs = max(PAIR_NUMBERS // max(points.shape[1], 1), 1)
    distances = [
        _squared_norms(select_points(i).double().sub_(select_points(j).double()))
        for i, j in zip(torch.split(rows[row_indices], n_pairs), torch.split(columns[mask], n_pairs), strict=True)
    ]
    squares[mask] = torch.cat(distances)


def _squared_norms(x: Tensor) -> Tensor:
    x = x.double()
    squares: Tensor = torch.linalg.vecdot(x, x)
    return squares


def has_exact_products(points: Tensor, max_square: float, precision: torch.dtype) -> bool:
    """Return whether points [n, d] are integers in some unit and a precision holds their squared distances exactly.

    ``max_square`` is the largest squared norm after centering. No squared distance or partial sum exceeds 4 times it.
    """
    bits = -math.log2(unit_roundoff(precision)) - 3
    power = min(int((bits - math.log2(max_square)) // 2), MAX_POWER) if max_square else MAX_POWER
    # Check few rows at a time: most clouds fail at the first ones.
    chunks = (x * 2.0**power for x in torch.split(points, EXACT_ROWS))
    return all(bool((chunk == chunk.round()).all()) for chunk in chunks)


def first_smallest(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the ``count`` smallest values of each row, ascending, and their columns; ties go to the first column."""
    smallest, columns = smallest_in_rows(x, count)
    kth_smallest = smallest[:, -1:]
    positions = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)
    _, tied_columns = smallest_in_rows(torch.where(x == kth_smallest, positions, math.inf), count)
    is_tied = smallest == kth_smallest
    columns = torch.where(is_tied, tied_columns.gather(1, (is_tied.cumsum(1) - 1).clamp(min=0)), columns)
    columns, order = columns.sort(dim=1)
    smallest, order = smallest.gather(1, order).sort(dim=1, stable=True)
    return smallest, columns.gather(1, order)
