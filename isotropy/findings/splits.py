"""Two parts of a cloud: the split along one direction that leaves the widest gap between them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

LEAST_SHARE = 0.05
"""Each part has at least so many of the rows: fewer are outliers."""

STARTS = 5
"""Leading directions from which a split is sought."""

ROUNDS = 6
"""Times the direction is turned to part the two better."""

MAX_COMPONENTS = 20
"""Leading directions in which a split is sought; fewer for few rows, or noise alone would part them."""

ROWS_PER_COMPONENT = 20


class Split(NamedTuple):
    """Points y are in the upper part where y . direction > threshold."""

    separation: float
    """Distance of the parts' means over the root mean square of their standard deviations (Ashman et al. 1994)."""
    direction: Tensor
    threshold: float

    def upper(self, y: Tensor) -> Tensor:
        """Return which of points [m, r] are in the upper part."""
        return y @ self.direction > self.threshold


def components_for(n: int, d: int) -> int:
    """Return in how many leading directions a split of n points of d dimensions is sought."""
    return max(1, min(MAX_COMPONENTS, d, n // ROWS_PER_COMPONENT))


def leading_directions(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean [d] of points, float64 [n, d], and their leading principal directions [d, r]."""
    n, d = x.shape
    mean = x.mean(0)
    y = x - mean
    r = components_for(n, d)
    if n < d:
        directions = y.T @ torch.linalg.eigh(y @ y.T).eigenvectors[:, -r:]
        return mean, (directions / directions.norm(dim=0).clamp(min=1e-300)).flip(1)
    return mean, torch.linalg.eigh(y.T @ y).eigenvectors[:, -r:].flip(1)


def best_split(y: Tensor) -> Split | None:
    """Return the split of points, float64 [n, r], with the greatest separation; None where none has two parts.

    Each start is a leading direction, cut where the variance between the parts is greatest (Otsu 1979); the direction
    is then Fisher's discriminant of the parts, and cut again.
    """
    found = [one for start in range(min(STARTS, y.shape[1])) if (one := _from(y, start)) is not None]
    return max(found, key=lambda one: one.separation, default=None)


def _from(y: Tensor, start: int) -> Split | None:
    direction = torch.zeros(y.shape[1], dtype=y.dtype)
    direction[start] = 1
    best: Split | None = None
    for _ in range(ROUNDS):
        split = _cut(y @ direction, direction)
        if split is None or (best is not None and split.separation <= best.separation):
            break
        best, direction = split, _discriminant(y, split.upper(y))
    return best


def _cut(p: Tensor, direction: Tensor) -> Split | None:
    """Return the cut of projections [n] with the greatest variance between its parts."""
    n = len(p)
    least = max(2, int(LEAST_SHARE * n))
    ordered = (p - p.mean()).sort().values
    below = torch.arange(least, n - least + 1)
    if len(below) == 0 or float(ordered[-1]) == float(ordered[0]):
        return None
    sums, squares = ordered.cumsum(0), ordered.square().cumsum(0)
    between = sums[below - 1].square() / (below * (n - below))
    k = int(below[between.argmax()])
    low, high = sums[k - 1] / k, (sums[-1] - sums[k - 1]) / (n - k)
    variances = (squares[k - 1] / k - low**2).clamp(min=0) + ((squares[-1] - squares[k - 1]) / (n - k) - high**2).clamp(
        min=0
    )
    scale = float((variances / 2).sqrt())
    separation = float(high - low) / scale if scale > 0 else float("inf")
    return Split(separation, direction, float((ordered[k - 1] + ordered[k]) / 2 + p.mean()))


def _discriminant(y: Tensor, upper: Tensor) -> Tensor:
    """Return Fisher's discriminant of two parts, [r]."""
    parts = y[upper], y[~upper]
    means = [part.mean(0) for part in parts]
    within = sum(((part - mean).T @ (part - mean) for part, mean in zip(parts, means, strict=True)), y.new_zeros(()))
    ridge = within.trace() / len(within) * 1e-9
    direction: Tensor = torch.linalg.solve(within + ridge * torch.eye(len(within), dtype=y.dtype), means[0] - means[1])
    unit: Tensor = direction / direction.norm()
    return unit
