"""Uniformity of directions on the sphere (Wang & Isola 2020)."""

import math

import torch
from torch import Tensor

from isotropy.cosine import unit_rows
from isotropy.points import at_least_float32, require_points
from isotropy.score import Score, there_are
from isotropy.tiles import TILE_ROWS, tiles

T = 2  # Sharpness of the Gaussian kernel, as in the paper and its code
NARROW_CONE_EXPONENT = -1  # Mean exponent above which the directions count as a narrow cone
CENTER_ROWS = 1000  # About how many directions are averaged for the center
DIRECTION_ROWS = 64  # Directions computed in float64 at once: more would leave the cache


def uniformity(x: Tensor) -> Score:
    """Return log mean exp(-2 ||u - v||^2) over pairs of unit rows of points [n, d], in [-8, 0] (Wang & Isola 2020).

    It is 0 if all directions are equal, and about -4 + 8 / d if they are uniform on the sphere. Zero rows are left out.
    Computed in at least float32. Undefined for fewer than two nonzero rows, and for NaN or infinity.
    """
    require_points(x)
    x = x.detach()
    has_direction = x.any(dim=1)
    if not has_direction.all():
        x = x[has_direction]
    if len(x) < 2:
        return _too_few_rows(len(x))
    directions = Directions(x, torch.ones(len(x), dtype=torch.int64, device=x.device))
    if not directions.negative_half_squares.isfinite().all():
        return Score.undefined("Uniformity is not finite: some points are NaN or infinite.")
    for rows, columns in tiles(len(x)):
        directions.add_tile(rows, columns)
    return directions.uniformity()


class Directions:
    """The centered directions u of finite points [n, d], and the sum of exp(-2 ||u - v||^2) over pairs so far.

    ``copy_counts`` int64 [n] says how many equal points each one stands for; 0 leaves out a zero row.
    """

    def __init__(self, x: Tensor, copy_counts: Tensor) -> None:
        # a = sqrt(2 T) (u - c) and h = -||a||^2 / 2, so a_i.a_j + h_i + h_j = -T ||u_i - u_j||^2. Subtracting c, a mean
        # of some u, keeps digits in a narrow cone.
        center = unit_rows(x[:: max(len(x) // CENTER_ROWS, 1)].double()).mean(0)
        self._a = at_least_float32(torch.empty_like(x))
        self.negative_half_squares = self._a.new_empty(len(x))
        for start in range(0, len(x), DIRECTION_ROWS):
            rows = slice(start, start + DIRECTION_ROWS)
            centered = unit_rows(x[rows].double()).sub_(center).mul_(math.sqrt(2 * T))
            self._a[rows], self.negative_half_squares[rows] = centered, torch.linalg.vecdot(centered, centered) / -2
        # expm1 keeps digits in a narrow cone, where all terms are near 1; elsewhere exp is faster.
        self._is_narrow = float(self.negative_half_squares.mean(dtype=torch.float64)) > NARROW_CONE_EXPONENT / 2
        self._n = int(copy_counts.sum())
        self._copy_counts = None if bool((copy_counts == 1).all()) else copy_counts.to(self._a)
        self._total = torch.zeros((), dtype=torch.float64, device=x.device)
        if not self._is_narrow:
            self._total += (copy_counts * (copy_counts - 1)).sum() / 2  # pairs of copies, which no tile contains
        tile_rows = min(len(x), TILE_ROWS)
        self._buffers = self._a.new_empty(2, tile_rows * tile_rows)

    def add_tile(self, rows: slice, columns: slice) -> Tensor:
        """Return -2 ||u - v||^2 [rows, columns] of a tile and add its pairs. The next tile overwrites the result."""
        exponents = self.buffer(0, rows, columns)
        torch.addmm(self.negative_half_squares[columns], self._a[rows], self._a[columns].T, out=exponents)
        exponents.add_(self.negative_half_squares[rows, None])
        terms = (torch.expm1 if self._is_narrow else torch.exp)(exponents, out=self.buffer(1, rows, columns))
        if rows == columns:
            terms.triu_(1)
        if self._copy_counts is not None:
            terms.mul_(self._copy_counts[columns]).mul_(self._copy_counts[rows, None])
        self._total += terms.sum(dtype=torch.float64)
        return exponents

    def buffer(self, number: int, rows: slice, columns: slice) -> Tensor:
        """Return scratch buffer 0 or 1 as [rows, columns], valid until the next tile; ``add_tile`` returns buffer 0."""
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        return self._buffers[number, : shape[0] * shape[1]].view(shape)

    def uniformity(self) -> Score:
        """Return the uniformity once all pairs have been added."""
        if self._n < 2:
            return _too_few_rows(self._n)
        mean = float(self._total) / (self._n * (self._n - 1) / 2)
        return Score.clipped(math.log1p(mean) if self._is_narrow else math.log(mean), -4 * T, 0)


def _too_few_rows(n: int) -> Score:
    return Score.undefined(f"Uniformity needs at least 2 rows that are not zero; {there_are(n)}.")
