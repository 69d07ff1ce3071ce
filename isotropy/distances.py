"""Euclidean distances by matrix products, and by differences where products would lose their digits."""

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

# Fraction of ||x||^2 + ||y||^2 up to which ||x - y||^2 is computed from the difference. The product has an error of up
# to about 1e-14 of that sum (at d = 4096), so each distance is accurate to 5e-8.
CLOSE = 1e-7
CENTER_ROWS = 256  # Rows whose median is the center


@dataclass(frozen=True)
class CenteredPoints:
    """Points and their offsets from a center, which other points may share."""

    points: Tensor  # float64 [n, d]
    centered: Tensor  # float64 [n, d], the points minus the center
    squared_norms: Tensor  # float64 [n], of the centered points

    @classmethod
    def about(cls, center: Tensor, points: Tensor) -> Self:
        """Center points [n, d] about a center [d]."""
        centered = points - center
        return cls(points, centered, centered.square().sum(1))

    def __getitem__(self, rows: slice) -> Self:
        return type(self)(self.points[rows], self.centered[rows], self.squared_norms[rows])


def center_of(points: Tensor) -> Tensor:
    """Return the median [d] of up to ``CENTER_ROWS`` of points [n, d], n at least 1; robust to outliers."""
    return points[:: -(-len(points) // CENTER_ROWS)].median(dim=0).values


def distances(x: CenteredPoints, y: CenteredPoints, excluded: Tensor | None = None) -> Tensor:
    """Return the distances [n, m] of points x to points y, both about the same center.

    ``excluded`` [n] is, for each x, the index of the y whose distance becomes infinity.
    """
    sums = x.squared_norms[:, None] + y.squared_norms
    squares = torch.addmm(sums, x.centered, y.centered.T, alpha=-2)
    if excluded is not None:
        squares.scatter_(1, excluded[:, None], math.inf)
    recompute_close(squares, sums, x.points, y.points)
    return squares.sqrt_()


def recompute_close(squares: Tensor, sums: Tensor, x: Tensor, y: Tensor) -> None:
    """Recompute squared distances [n, m] of close pairs of x [n, d] and y [m, d] from their differences.

    ``sums`` [n, m] holds the sums of squared lengths and is overwritten.
    """
    is_close = squares <= sums.mul_(CLOSE)
    if not is_close.any():
        return
    rows = is_close.any(1).nonzero().squeeze(1)
    columns = is_close.any(0).nonzero().squeeze(1)
    block = rows[:, None], columns
    exact = torch.cdist(x[rows], y[columns], compute_mode="donot_use_mm_for_euclid_dist").square()
    squares[block] = torch.where(is_close[block], exact, squares[block])
