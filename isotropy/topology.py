"""Persistent homology in dimension 0: which points are connected at which distance.

The bars of the Vietoris-Rips filtration in dimension 0 are the edges of the minimum spanning tree: n points have n - 1.
"""

import math

import numpy as np
import torch
from torch import Tensor

from isotropy.distances import recompute_close
from isotropy.points import in_float64, require_points, scaled
from isotropy.score import Score, there_are
from isotropy.spectrum import gram

BLOCK_ROWS = 256  # Points whose distances to all others are computed at once


def barcode(x: Tensor) -> Tensor:
    """Return the bars of points [n, d] in dimension 0, ascending [n - 1], in the units of the points; differentiable.

    At least float32. Coinciding points have a bar of 0 with gradient 0. It takes 8 n^2 bytes: for some thousands of
    points. Raises ValueError for points that are not finite.
    """
    require_points(x)
    # Float64 holds the differences of all that float32 holds exactly.
    points, scale = scaled(in_float64(x))
    start, end = _spanning_tree(points).unbind(1)
    lengths: Tensor = torch.linalg.vector_norm(points[start] - points[end], dim=1) * scale
    return lengths.sort().values.to(x.device, torch.promote_types(x.dtype, torch.float32))


def bar_entropy(lengths: Tensor) -> Tensor:
    """Return the persistent entropy of bars [m], 0-d in [0, log m], in nats, differentiable.

    Value and gradient are finite: bars of length 0 add nothing and have gradient 0. Raises ValueError unless
    ``lengths`` is a floating tensor [m].
    """
    require_bars(lengths)
    positive = lengths[lengths > 0]
    if len(positive) == 0:
        return lengths.sum()
    # Scale first, because the sum may leave the range of the dtype.
    positive = positive / positive.detach().max()
    p = positive / positive.sum()
    p = p[p > 0]
    return -(p * p.log()).sum()


def persistent_entropy(lengths: Tensor, *, normalized: bool = False) -> Score:
    """Return the entropy -sum p log p of bars [m], p = l / sum l, in nats, in [0, log m] (Atienza et al. 2019).

    ``normalized`` divides by log m, for clouds of different sizes. Undefined for fewer than two bars, bars that are all
    0, and NaN or infinity.
    """
    require_bars(lengths)
    m = len(lengths)
    if m < 2:
        return Score.undefined(f"Persistent entropy needs at least 2 bars, so at least 3 points; {there_are(m)}.")
    if (reason := explain_undefined_bars(lengths)) is not None:
        return Score.undefined(reason)
    maximum = math.log(m)
    entropy = float(bar_entropy(lengths.detach().double()))
    return Score.clipped(entropy / maximum, 0, 1) if normalized else Score.clipped(entropy, 0, maximum)


def longest_bar(lengths: Tensor) -> Score:
    """Return the longest of bars [m], the distance at which all points connect, in units of the points.

    Undefined without a bar, and for NaN or infinity.
    """
    require_bars(lengths)
    reason = _explain_missing_length(lengths)
    return Score.undefined(reason) if reason is not None else Score(float(lengths.max()))


def require_bars(lengths: Tensor) -> None:
    """Raise ValueError unless ``lengths`` is a floating tensor [m]."""
    if lengths.ndim != 1 or not lengths.is_floating_point():
        raise ValueError(
            f"Expected the lengths of bars as a floating tensor [m], got {list(lengths.shape)} of {lengths.dtype}: "
            "take those of barcode(x)."
        )


def explain_undefined_bars(lengths: Tensor) -> str | None:
    """Return why measures of bars [m] are undefined, in a sentence, or None if they are defined."""
    if len(lengths) and not lengths.any():
        return "All bars have length 0: all points are equal."
    return _explain_missing_length(lengths)


def _explain_missing_length(lengths: Tensor) -> str | None:
    if len(lengths) == 0:
        return "There is no bar: a barcode needs at least 2 points."
    if not lengths.isfinite().all():
        return "The bars are not finite: some points are NaN, infinite or too far apart."
    return None


def _spanning_tree(x: Tensor) -> Tensor:
    """Return the edges of a minimum spanning tree of float64 points, int64 [n - 1, 2], by Prim's algorithm."""
    if len(x) < 2:
        return torch.empty(0, 2, dtype=torch.int64, device=x.device)
    x = x.detach()
    squared_distances = gram((x - x.mean(0)).T)  # inner products at first, rewritten in place
    squared_norms = squared_distances.diagonal().clone()
    squared_distances.fill_diagonal_(-math.inf)
    for start in range(0, len(x), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        sums = squared_norms[rows, None] + squared_norms
        recompute_close(squared_distances[rows].mul_(-2).add_(sums), sums, x[rows], x)
    distance_matrix = squared_distances.cpu().numpy()
    n = len(distance_matrix)
    distance_to_tree = np.full(n, np.inf)  # squared; infinity for points inside
    parent = np.zeros(n, dtype=np.int64)  # the nearest point of the tree, to which a point will be joined
    is_outside = np.ones(n, dtype=bool)
    is_closer = np.empty(n, dtype=bool)
    added = np.zeros(n, dtype=np.int64)  # points in the order in which they join the tree
    newest = 0
    for step in range(1, n):
        is_outside[newest] = False
        distance_to_tree[newest] = np.inf
        row = distance_matrix[newest]
        np.less(row, distance_to_tree, out=is_closer)
        np.logical_and(is_closer, is_outside, out=is_closer)
        np.copyto(distance_to_tree, row, where=is_closer)
        np.copyto(parent, newest, where=is_closer)
        newest = int(distance_to_tree.argmin())
        added[step] = newest
    return torch.from_numpy(np.stack([parent[added[1:]], added[1:]], axis=1)).to(x.device)
