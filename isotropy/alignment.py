"""Similarity of two embeddings of the same rows: debiased linear CKA, neighbor overlap, Procrustes residual.

None changes when an embedding is rotated, mirrored or scaled; a shift changes neighbors by cosine. The numbers of
dimensions may differ.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.findings.nearest import NEAREST, kept_neighbor_shares
from isotropy.score import FEWEST_FOR_SE, Score, error_parts, there_are

ROWS = 3000  # Maximum rows of a comparison: products of all pairs are held at once
# For the Procrustes residual, which needs the singular values of a matrix of that size.
MAX_DIMENSIONS = 2048
# Minimum rows per dimension of the smaller embedding for an interval of the residual. With fewer, its bias exceeds its
# error: for unrelated embeddings in 64 dimensions, 95% intervals never cover 1 with 64 rows, and in 18% of cases with
# 128.
ROWS_PER_DIMENSION = 4
EQUAL_ROWS = "All rows of one embedding are equal."
NO_INTERVAL = f"No interval: it needs {ROWS_PER_DIMENSION} rows per dimension."
ROUNDING = 1e-9  # Values at most this far from 0 or 1 are reported as exactly 0 or 1


def alignment(x: Tensor, y: Tensor, blocks: NDArray[np.int64]) -> dict[str, Score]:
    """Return CKA, neighbor overlap and Procrustes residual of points x [n, d] and y [n, e] of the same rows, by slug.

    Both are finite and have at most about ``ROWS`` rows. ``blocks`` [n] gives the block of each row; dependent rows
    share one. Raises ValueError if the numbers of rows differ.
    """
    if len(x) != len(y) or len(x) != len(blocks):
        raise ValueError(f"Expected as many rows in x, y and blocks, got {len(x)}, {len(y)} and {len(blocks)}.")
    reason = None
    if len(x) < FEWEST_FOR_SE:
        reason = f"At least {FEWEST_FOR_SE} shared rows are needed; {there_are(len(x))}."
    elif any(bool((points == points[0]).all()) for points in (x, y)):
        reason = EQUAL_ROWS
    if reason is not None:
        return dict.fromkeys(("cka", "neighbor_overlap", "procrustes"), Score.undefined(reason))
    x, y = (points.double() / (float(points.abs().amax()) or 1.0) for points in (x, y))
    block_ids, counts = np.unique(blocks, return_counts=True)
    shares = [float(count) / len(blocks) for count in counts]
    remaining_rows = [torch.from_numpy(np.flatnonzero(blocks != block)) for block in block_ids]
    if len(block_ids) == 1:  # without the only block, no row remains
        remaining_rows = []
    K, L = _linear_kernel(x), _linear_kernel(y)
    # By row. The jackknife leaves a block out of their mean, but its rows still count as neighbors of others.
    overlaps = kept_neighbor_shares(x, y, torch.arange(len(x)))
    scores = {
        "cka": _cka(K, L),
        "neighbor_overlap": Score(float(overlaps.mean())),
        "procrustes": procrustes_residual(x, y),
    }
    left_out = {
        "cka": [_cka(K[rows][:, rows], L[rows][:, rows]) for rows in remaining_rows],
        "neighbor_overlap": [Score(float(overlaps[rows].mean())) for rows in remaining_rows],
        "procrustes": [procrustes_residual(x[rows], y[rows]) for rows in remaining_rows],
    }
    scores = {slug: score.with_error(error_parts(score, left_out[slug], shares)) for slug, score in scores.items()}
    residual = scores["procrustes"]
    if residual.value is not None:
        # Correct the bias of order 1 / n by the jackknife. With few rows, report no error.
        pairs = zip(shares, left_out["procrustes"], strict=False)  # a single block leaves nothing to score
        bias = sum((1 - share) * (score.value - residual.value) for share, score in pairs if score.value is not None)
        corrected = Score.clipped(residual.value - bias, 0, 1)
        has_enough_rows = len(x) >= ROWS_PER_DIMENSION * min(x.shape[1], y.shape[1])
        scores["procrustes"] = (
            corrected.with_error(residual.parts) if has_enough_rows else replace(corrected, reason=NO_INTERVAL)
        )
    for slug, score in scores.items():
        value, se = score.value, score.se or 0
        if value is not None and max(se, abs(value - round(value))) <= ROUNDING:
            scores[slug] = replace(score, value=float(round(value))).with_error([0.0] * len(score.parts))
    return scores


def procrustes_residual(x: Tensor, y: Tensor) -> Score:
    """Return the share of variance left after the best rotation of points [n, d] onto points [n, e], in [0, 1].

    It is 1 - (the sum of the singular values of x^T y)^2, with x and y centered and scaled to Frobenius norm 1. Biased
    low for few rows. Undefined above ``MAX_DIMENSIONS`` and if all rows of x or of y are equal.
    """
    if max(x.shape[1], y.shape[1]) > MAX_DIMENSIONS:
        return Score.undefined(f"It is computed for at most {MAX_DIMENSIONS:,} dimensions.")
    normalized = []
    for points in (x.double(), y.double()):
        centered = points - points.mean(0)
        size = torch.linalg.matrix_norm(centered)
        if not size > 0:
            return Score.undefined(EQUAL_ROWS)
        normalized.append(centered / size)
    return Score.clipped(1 - float(torch.linalg.svdvals(normalized[0].T @ normalized[1]).sum()) ** 2, 0, 1)


def _linear_kernel(x: Tensor) -> Tensor:
    centered = x.double() - x.double().mean(0)
    return (centered @ centered.T).fill_diagonal_(0)


def _cka(K: Tensor, L: Tensor) -> Score:
    """Return debiased CKA of two kernels [n, n] (Song et al. 2012): about 0 if unrelated, by chance below."""
    n = len(K)
    if n < 4:
        return Score.undefined(f"It needs at least 4 rows; {there_are(n)}.")
    hsic_KL, hsic_KK, hsic_LL = _hsic(K, L), _hsic(K, K), _hsic(L, L)
    if hsic_KK <= 0 or hsic_LL <= 0:
        return Score.undefined("The rows of one embedding are equal, or too few for its dimensions.")
    return Score.clipped(hsic_KL / (hsic_KK * hsic_LL) ** 0.5, -1, 1)


def _hsic(K: Tensor, L: Tensor) -> float:
    """Return the unbiased HSIC of kernels [n, n] with zero diagonals, up to a factor that depends only on n."""
    n = len(K)
    K_sums, L_sums = K.sum(1), L.sum(1)
    product_of_totals = float(K_sums.sum()) * float(L_sums.sum())
    return float((K * L).sum()) + product_of_totals / ((n - 1) * (n - 2)) - 2 * float(K_sums @ L_sums) / (n - 2)


ROWS_AT_ONCE = 2048  # Rows searched for neighbors at once


class RowDrift(NamedTuple):
    """How far each row moved between two embeddings; symmetric in the two."""

    neighbors_kept: Tensor  # [n] float64: the share of the 10 nearest references by cosine that are the same in both
    # [n] float64: the distance to the same row of the other embedding after the best rotation, both centered and scaled
    # to rows of length 1 in root mean square. 0 if a row stays, about 1.4 if it moves at random.
    residual: Tensor | None
    reason: str | None = None  # Why there are no residuals


def row_drift(x: Tensor, y: Tensor, references: int) -> RowDrift:
    """Return how far each row moves between finite points x [n, d] and y [n, e] of the same rows.

    Neighbors are searched among the first ``references`` rows. The squared residuals average 2 (1 - s), where 1 - s^2
    is the Procrustes residual. Raises ValueError for different numbers of rows or too few references for 10 neighbors.
    """
    if len(x) != len(y):
        raise ValueError(f"Expected the same number of rows in both, got {len(x)} and {len(y)}.")
    if min(references, len(x)) <= NEAREST:
        raise ValueError(f"Expected more than {NEAREST} reference rows, got {min(references, len(x))}.")
    rows = torch.arange(len(x))
    starts = range(0, len(x), ROWS_AT_ONCE)
    shares = torch.cat(
        [kept_neighbor_shares(x, y, rows[start : start + ROWS_AT_ONCE], references=references) for start in starts]
    )
    if max(x.shape[1], y.shape[1]) > MAX_DIMENSIONS:
        return RowDrift(shares, None, f"Residuals are computed for at most {MAX_DIMENSIONS:,} dimensions.")
    normalized = []
    for cloud in (x, y):
        points = cloud.double() / (float(cloud.abs().amax()) or 1.0)
        points -= points.mean(0)
        rms_length = torch.linalg.matrix_norm(points) / len(points) ** 0.5
        if not rms_length > 0:
            return RowDrift(shares, None, EQUAL_ROWS)
        normalized.append(points / rms_length)
    a, b = normalized
    u, _, v = torch.linalg.svd(a.T @ b, full_matrices=False)
    rotated = a @ (u @ v)
    # ||a||^2 rather than ||rotated||^2, so that dimensions of ``a`` that ``b`` lacks count as differences.
    squares = a.square().sum(1) + b.square().sum(1) - 2 * (rotated * b).sum(1)
    return RowDrift(shares, squares.clamp(min=0).sqrt())
