"""The nearest points by matrix products in one precision: bounds that hold, candidates measured by differences."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from isotropy.distances import centre_of
from isotropy.spectrum import CHUNK_ROWS

BLOCK = 10_000_000
"""Bounds held at once, those of 500 rows to all of 20,000: 40 MB in float32."""

PAIR_NUMBERS = 100_000
"""Numbers in the differences taken at once: more leave the caches."""

GROUP = 20
"""Columns of which only the least is looked at first."""

GREATEST_POWER = 60
"""Units tried for exactness are no finer than 2^-60, whose squares are normal numbers of float32."""


def unit_roundoff(dtype: torch.dtype) -> float:
    """Return the greatest relative error of one rounding."""
    return torch.finfo(dtype).eps / 2


def block_rows(n: int) -> int:
    """Return how many rows' bounds to n points are held at once."""
    return max(min(BLOCK // max(n, 1), n), 1)


class Products:
    """Lower bounds of all squared distances by matrix products in one precision; candidates measured by differences.

    Of a, a centered point, the precision keeps b with |a - b| <= rho |a|. With u the unit roundoff of the sums, u' that
    of the stored product fl(b b'), the latter is off by at most ((1 + rho)^2 (1 + d u + u') - 1) |a||a'| and what
    underflows (Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 3.1). So, as |a||a'| is at most
    half of |a|^2 + |a'|^2,

        |a - a'|^2 >= (1 - error) (|a|^2 + |a'|^2) - 2 fl(b b') - underflow.

    Where all coordinates are multiples of one unit, and the squared distances in it integers that the precision holds,
    nothing is rounded: the bounds are the squared distances. So it is for binary, one-hot and counted features, the
    points of which have very many others at the same distance.

    Args:
        points: [n, d], float32 or float64, none greater than 2: see ``isotropy.points.scaled``.
        precision: to multiply in. In float64 every row is settled.
        candidates: number of others of each point to measure at first, at most n - 1.

    """

    def __init__(self, points: Tensor, precision: torch.dtype, candidates: int) -> None:
        n, d = points.shape
        exact = torch.promote_types(points.dtype, precision)
        sums = torch.promote_types(precision, torch.float32)
        centre = centre_of(points)
        self._kept = points.new_empty(n, d, dtype=precision)
        squares = points.new_empty(n, dtype=torch.float64)
        rho = 0.0
        for start in range(0, n, CHUNK_ROWS):
            rows = slice(start, start + CHUNK_ROWS)
            centred = points[rows].to(exact) - centre
            kept = centred.to(precision)
            self._kept[rows] = kept
            squares[rows] = _squares(centred)
            rho = max(rho, float((_squares(centred - kept) / squares[rows]).nan_to_num(0).max()) ** 0.5)
        self._points = points
        self._candidates = candidates
        self._is_last = precision == torch.float64
        self._is_exact = sums == precision and _multiplies_exactly(points, float(squares.max()), precision)
        if self._is_exact:
            self._least = squares
        else:
            rho += unit_roundoff(exact)
            # 8: what rounds the squares and their sum with the product. 1.01: for terms of second order.
            rounding = 1.01 * (unit_roundoff(precision) + (d + 8) * unit_roundoff(sums))
            error = (1 + rho) ** 2 * (1 + rounding) - 1
            self._least = (1 - error) * squares - 64 * (d + 1) * torch.finfo(sums).tiny
        self._least_in_sums = self._least.to(sums)
        self._margin = 1 + 8 * (d + 1) * unit_roundoff(torch.float64)
        self._products = points.new_empty(block_rows(n), n, dtype=precision)
        self._bounds = points.new_full((block_rows(n), -(-n // GROUP) * GROUP), math.inf, dtype=sums)

    def nearest(self, rows: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return distances and indices [rows, k], nearest first, and for which rows they are settled."""
        bounds = self._bounds_of(rows)
        if self._is_exact:
            squares, columns = _first_least(bounds, k)
            squares = squares.double() + self._least[rows, None]
            return squares.sqrt(), columns, torch.ones_like(rows, dtype=torch.bool)
        least, columns = _least(bounds, self._candidates)
        least = least.double() + self._least[rows, None]
        squares = torch.full_like(least, math.inf)
        measured = torch.zeros_like(least, dtype=torch.bool)
        measured[:, :k] = True
        self._measure(squares, measured, rows, columns)
        reach = squares[:, :k].amax(1, keepdim=True) * self._margin
        self._measure(squares, (least <= reach) & ~measured, rows, columns)

        columns, order = columns.sort(dim=1)
        squares, order = squares.gather(1, order).sort(dim=1, stable=True)
        squares, columns = squares[:, :k], columns.gather(1, order)[:, :k]
        reach = squares[:, -1] * self._margin
        settled = reach < least[:, -1]
        if self._is_last and not settled.all():
            left = (~settled).nonzero().squeeze(1)
            within = bounds[left].double() + self._least[rows[left], None] <= reach[left, None]
            squares[left], columns[left] = self._nearest_among(within, rows[left], k)
            settled = torch.ones_like(settled)
        return squares.sqrt(), columns, settled

    def _bounds_of(self, rows: Tensor) -> Tensor:
        """Return lower bounds of squared distances less the part of the row itself, [rows, n or a few more], inf."""
        n = len(self._points)
        products = torch.mm(self._kept[rows] * -2, self._kept.T, out=self._products[: len(rows)])
        bounds = self._bounds[: len(rows)]
        # Two steps, because adding bfloat16 to float32 takes three times as long.
        bounds[:, :n].copy_(products).add_(self._least_in_sums)
        bounds[torch.arange(len(rows), device=rows.device), rows] = math.inf
        return bounds

    def _nearest_among(self, within: Tensor, rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return squared distances and indices [rows, k] of the nearest among the columns of a mask [rows, columns]."""
        squares = torch.full_like(within, math.inf, dtype=torch.float64)
        columns = torch.arange(within.shape[1], device=within.device).expand_as(within)
        self._measure(squares, within, rows, columns)
        return _first_least(squares, k)

    def _measure(self, squares: Tensor, wanted: Tensor, rows: Tensor, columns: Tensor) -> None:
        """Fill in the squared distances [rows, columns] that are wanted, a mask of the same shape."""
        row, _ = wanted.nonzero(as_tuple=True)
        take = partial(self._points.index_select, 0)
        pairs = max(PAIR_NUMBERS // max(self._points.shape[1], 1), 1)
        measured = [
            _squares(take(i).double().sub_(take(j).double()))
            for i, j in zip(torch.split(rows[row], pairs), torch.split(columns[wanted], pairs), strict=True)
        ]
        squares[wanted] = torch.cat(measured)


def _squares(x: Tensor) -> Tensor:
    """Return the squared norms of the rows of a matrix [n, d], in float64."""
    x = x.double()
    squares: Tensor = torch.linalg.vecdot(x, x)
    return squares


def _multiplies_exactly(points: Tensor, largest: float, precision: torch.dtype) -> bool:
    """Return whether squared distances of points are integers, in some unit, that the precision holds.

    Args:
        points: [n, d], from which a point of their own coordinates was subtracted.
        largest: squared norm of the centered points: no squared distance, nor any sum on the way, exceeds 4 times it.
        precision: of the products and their sums.

    """
    bits = -math.log2(unit_roundoff(precision)) - 3
    power = min(int((bits - math.log2(largest)) // 2), GREATEST_POWER) if largest else GREATEST_POWER
    chunks = (x * 2.0**power for x in torch.split(points, CHUNK_ROWS))
    return all(bool((chunk == chunk.round()).all()) for chunk in chunks)


def _first_least(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the least values of every row of [rows, columns], ascending, and their columns; of equals the first."""
    least, columns = _least(x, count)
    greatest = least[:, -1:]
    places = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)
    _, first = _least(torch.where(x == greatest, places, math.inf), count)
    equal = least == greatest
    columns = torch.where(equal, first.gather(1, (equal.cumsum(1) - 1).clamp(min=0)), columns)
    columns, order = columns.sort(dim=1)
    least, order = least.gather(1, order).sort(dim=1, stable=True)
    return least, columns.gather(1, order)


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
