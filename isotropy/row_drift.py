"""How far each row moves between two embeddings of the same rows: by its neighbors, and by its place."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from isotropy.alignment import MOST_DIMENSIONS
from isotropy.findings.nearest import NEAREST, kept_of

AT_ONCE = 2048
"""Rows whose neighbors are sought, and which are summed, at once."""


class RowDrift(NamedTuple):
    """What moved, row by row; the same whichever embedding is named first."""

    kept: Tensor
    """[n] float64: which share of the 10 nearest references by cosine are the same in both."""
    residual: Tensor | None
    """[n] float64: the distance to the same row of the other embedding after the best rotation, both centered and
    scaled to rows of length 1 in root mean square. 0 where a row stays, about 1.4 where it lands anywhere."""
    reason: str | None = None
    """Why there are no residuals."""


def row_drift(x: Tensor, y: Tensor, references: int) -> RowDrift:
    """Return how far each row moves between points [n, d] and [n, any] of the same rows, all finite.

    The squares of the residuals are 2 (1 - s) on average, where 1 - s^2 is the Procrustes residual of all rows.

    Args:
        x: [n, d].
        y: [n, any], the same rows.
        references: rows among which neighbors are sought, the first.

    Raises:
        ValueError: the two have different numbers of rows, or there are too few references for 10 neighbors.

    """
    if len(x) != len(y):
        raise ValueError(f"Expected the same rows in both, got {len(x)} and {len(y)}.")
    if min(references, len(x)) <= NEAREST:
        raise ValueError(f"Expected more than {NEAREST} reference rows, got {min(references, len(x))}.")
    rows = torch.arange(len(x))
    starts = range(0, len(x), AT_ONCE)
    kept = [kept_of(x, y, rows[start : start + AT_ONCE], references=references) for start in starts]
    return RowDrift(torch.cat(kept), *_residuals(x, y))


def _residuals(x: Tensor, y: Tensor) -> tuple[Tensor | None, str | None]:
    if max(x.shape[1], y.shape[1]) > MOST_DIMENSIONS:
        return None, f"Residuals are found for at most {MOST_DIMENSIONS:,} dimensions."
    scaled = [_scaled(one) for one in (x, y)]
    if any(one is None for one in scaled):
        return None, "All rows of one embedding are equal."
    a, b = (one for one in scaled if one is not None)
    u, _, v = torch.linalg.svd(a.T @ b, full_matrices=False)
    turned = a @ (u @ v)
    # Of embeddings with other numbers of dimensions the smaller one is thought to have columns of zeros.
    squares = a.square().sum(1) + b.square().sum(1) - 2 * (turned * b).sum(1)
    return squares.clamp(min=0).sqrt(), None


def _scaled(x: Tensor) -> Tensor | None:
    """Return points centered and scaled; None where all are equal."""
    points = x.double() / (float(x.abs().amax()) or 1.0)
    points -= points.mean(0)
    size = torch.linalg.matrix_norm(points) / len(points) ** 0.5
    return points / size if size > 0 else None
