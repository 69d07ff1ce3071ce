"""Similarity of two embeddings of the same rows: debiased linear CKA, neighbor overlap, Procrustes residual.

None changes when an embedding is rotated, mirrored or scaled; a shift changes neighbors by cosine. The numbers of
dimensions may differ.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.findings.nearest import NEAREST, shares_kept
from isotropy.jackknife import error_parts
from isotropy.score import FEWEST_FOR_SE, Score, there_are

ROWS = 3000  # Rows that two embeddings are compared by: all products of pairs of them are held at once
# Dimensions up to which the Procrustes residual is found: it takes the singular values of a matrix of so many.
MOST_DIMENSIONS = 2048
# Rows for each dimension of the smaller embedding from which the residual has an interval. With fewer it is too low by
# more than its error: of unrelated embeddings in 64 dimensions 95% intervals of 64 rows never hold 1, of 128 in .18.
ROWS_A_DIMENSION = 4
FEW_ROWS = f"No interval: it takes {ROWS_A_DIMENSION} rows a dimension."
ROUNDING = 1e-9  # Distance from 0 or 1 below which a value is that, but for the rounding of what it is made of


def alignment(x: Tensor, y: Tensor, blocks: NDArray[np.int64]) -> dict[str, Score]:
    """Return CKA, neighbor overlap and Procrustes residual of points x [n, d] and y [n, any] of the same rows, by slug.

    Both are finite and have at most about ``ROWS`` rows. ``blocks`` [n] gives the block of each row; dependent rows
    share one. Raises ValueError if the numbers of rows differ.
    """
    if len(x) != len(y) or len(x) != len(blocks):
        raise ValueError(f"Expected the same rows in both, got {len(x)} and {len(y)} with {len(blocks)} blocks.")
    if len(x) < FEWEST_FOR_SE:
        too_few = Score.undefined(f"It takes at least {FEWEST_FOR_SE} rows that both have; {there_are(len(x))}.")
        return {"cka": too_few, "neighbor_overlap": too_few, "procrustes": too_few}
    x, y = (points.double() / (float(points.abs().amax()) or 1.0) for points in (x, y))
    scores = {
        "cka": _cka_with_error(x, y, blocks),
        "neighbor_overlap": _overlap(x, y, blocks),
        "procrustes": _residual_with_error(x, y, blocks),
    }
    for slug, score in scores.items():
        # Within rounding of 0 or 1 it is exactly that.
        value, se = score.value, score.se or 0
        if value is not None and max(se, abs(value - round(value))) <= ROUNDING:
            scores[slug] = Score(float(round(value))).with_error([0.0] * len(score.parts))
    return scores


def cka(x: Tensor, y: Tensor) -> Score:
    """Return debiased linear CKA of points [n, d] and [n, any] of the same rows: 0 if unrelated, 1 if equal.

    HSIC is estimated without bias (Song et al. 2012), so the value can fall below 0 by chance.
    """
    return _cka(*(_kernel(points) for points in (x, y)))


def procrustes_residual(x: Tensor, y: Tensor) -> Score:
    """Return the share of variance left after the best rotation of points [n, d] onto [n, any], in [0, 1].

    It is 1 - (the sum of the singular values of x^T y)^2, both centered and scaled. Biased low for few rows.
    """
    if max(x.shape[1], y.shape[1]) > MOST_DIMENSIONS:
        return Score.undefined(f"It is found for at most {MOST_DIMENSIONS:,} dimensions.")
    units = []
    for points in (x.double(), y.double()):
        centered = points - points.mean(0)
        size = torch.linalg.matrix_norm(centered)
        if not size > 0:
            return Score.undefined("All rows of one embedding are equal.")
        units.append(centered / size)
    return Score.within(1 - float(torch.linalg.svdvals(units[0].T @ units[1]).sum()) ** 2, 0, 1)


def _kernel(x: Tensor) -> Tensor:
    centered = x.double() - x.double().mean(0)
    return (centered @ centered.T).fill_diagonal_(0)


def _cka(K: Tensor, L: Tensor) -> Score:
    n = len(K)
    if n < 4:
        return Score.undefined(f"It takes at least 4 rows; {there_are(n)}.")
    cross, first, second = _hsic(K, L), _hsic(K, K), _hsic(L, L)
    if first <= 0 or second <= 0:
        return Score.undefined("The rows of one embedding are equal, or too few for its dimensions.")
    return Score.within(cross / (first * second) ** 0.5, -1, 1)


def _hsic(K: Tensor, L: Tensor) -> float:
    """Return the unbiased HSIC of kernels [n, n] with zero diagonals, up to a factor that depends on n alone."""
    n = len(K)
    k, m = K.sum(1), L.sum(1)
    of_sums = float(k.sum()) * float(m.sum()) / ((n - 1) * (n - 2))
    return float((K * L).sum()) + of_sums - 2 * float(k @ m) / (n - 2)


def _cka_with_error(x: Tensor, y: Tensor, blocks: NDArray[np.int64]) -> Score:
    K, L = _kernel(x), _kernel(y)
    left_out = (_cka(K[remaining][:, remaining], L[remaining][:, remaining]) for remaining in _left_out(blocks))
    score = _cka(K, L)
    return score.with_error(error_parts(score, list(left_out), _shares(blocks)))


def _residual_with_error(x: Tensor, y: Tensor, blocks: NDArray[np.int64]) -> Score:
    """Return the residual, corrected by the jackknife for its bias of order 1 / n; without error for few rows."""
    score = procrustes_residual(x, y)
    if score.value is None:
        return score
    left_out = [procrustes_residual(x[remaining], y[remaining]) for remaining in _left_out(blocks)]
    parts = error_parts(score, left_out, _shares(blocks))
    values = [residual.value for residual in left_out if residual.value is not None]
    bias = sum((1 - share) * (value - score.value) for share, value in zip(_shares(blocks), values, strict=False))
    corrected = Score.within(score.value - bias, 0, 1)
    enough = len(x) >= ROWS_A_DIMENSION * min(x.shape[1], y.shape[1])
    return corrected.with_error(parts) if enough else replace(corrected, reason=FEW_ROWS)


def _overlap(x: Tensor, y: Tensor, blocks: NDArray[np.int64]) -> Score:
    """Return the share of the 10 nearest by cosine in common. The jackknife leaves rows out as queries only."""
    shares = shares_kept(x, y, torch.arange(len(x)))
    score = Score(float(shares.mean()))
    left_out = [Score(float(shares[remaining].mean())) for remaining in _left_out(blocks)]
    return score.with_error(error_parts(score, left_out, _shares(blocks)))


def _left_out(blocks: NDArray[np.int64]) -> list[Tensor]:
    """Return the indices of the rows outside each block; an empty list if there is only one block."""
    present = np.unique(blocks)
    return [torch.from_numpy(np.flatnonzero(blocks != block)) for block in present] if len(present) > 1 else []


def _shares(blocks: NDArray[np.int64]) -> list[float]:
    counts = np.unique(blocks, return_counts=True)[1]
    return [float(count) / len(blocks) for count in counts]


AT_ONCE = 2048  # Rows whose neighbors are sought, and which are summed, at once


class RowDrift(NamedTuple):
    """How far each row moved between two embeddings; symmetric in the two."""

    neighbors_kept: Tensor  # [n] float64: which share of the 10 nearest references by cosine are the same in both
    # [n] float64: the distance to the same row of the other embedding after the best rotation, both centered and scaled
    # to rows of length 1 in root mean square. 0 where a row stays, about 1.4 where it lands anywhere.
    residual: Tensor | None
    reason: str | None = None  # Why there are no residuals


def row_drift(x: Tensor, y: Tensor, references: int) -> RowDrift:
    """Return how far each row moves between finite points x [n, d] and y [n, any] of the same rows.

    Neighbors are searched among the first ``references`` rows. The squared residuals average 2 (1 - s), where 1 - s^2
    is the Procrustes residual. Raises ValueError for different numbers of rows or too few references for 10 neighbors.
    """
    if len(x) != len(y):
        raise ValueError(f"Expected the same rows in both, got {len(x)} and {len(y)}.")
    if min(references, len(x)) <= NEAREST:
        raise ValueError(f"Expected more than {NEAREST} reference rows, got {min(references, len(x))}.")
    rows = torch.arange(len(x))
    starts = range(0, len(x), AT_ONCE)
    shares = [shares_kept(x, y, rows[start : start + AT_ONCE], references=references) for start in starts]
    return RowDrift(torch.cat(shares), *_residuals(x, y))


def _residuals(x: Tensor, y: Tensor) -> tuple[Tensor | None, str | None]:
    if max(x.shape[1], y.shape[1]) > MOST_DIMENSIONS:
        return None, f"Residuals are found for at most {MOST_DIMENSIONS:,} dimensions."
    scaled = [_scaled(points) for points in (x, y)]
    if any(points is None for points in scaled):
        return None, "All rows of one embedding are equal."
    a, b = (points for points in scaled if points is not None)
    u, _, v = torch.linalg.svd(a.T @ b, full_matrices=False)
    turned = a @ (u @ v)
    # Of embeddings with other numbers of dimensions the smaller one is thought to have columns of zeros.
    squares = a.square().sum(1) + b.square().sum(1) - 2 * (turned * b).sum(1)
    return squares.clamp(min=0).sqrt(), None


def _scaled(x: Tensor) -> Tensor | None:
    """Center points and scale them to root-mean-square length 1; return None if all are equal."""
    points = x.double() / (float(x.abs().amax()) or 1.0)
    points -= points.mean(0)
    size = torch.linalg.matrix_norm(points) / len(points) ** 0.5
    return points / size if size > 0 else None
