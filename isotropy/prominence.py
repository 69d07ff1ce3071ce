"""Prominent bars of a barcode, by a rule that separates groups of points from noise.

In the rule of Atienza, Gonzalez-Diaz & Rucco (2019), used by Kudriashov, Karpik & Klyshinsky (2025), the longest bar T
is prominent and the shortest, r, is noise. The bars between are tested from the longest down: to test bar i, the first
i after T are set to the neutral length, which maximizes the entropy given the other bars. Bar i stands out unless this
lowers the share of T in the sum; from the first bar that does not stand out, all are noise. At Q bars of length T, bars
of only the lengths T and r have least entropy: if more than Q stand out, the rule is applied again to them and r.

In many dimensions bars are about equal, and the rule calls dozens to hundreds of one Gaussian cloud prominent. So the
number is reported next to that of a Gaussian cloud of the same size.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.score import Score
from isotropy.topology import barcode, explain_undefined_bars, require_bars

SEED = 0  # Seed of the Gaussian cloud, fixed so that the number can be reproduced
# Sums of bars that differ by at most this fraction count as equal, because equal bars may differ by rounding.
ROUNDING = 1e-12


def prominent_mask(lengths: Tensor) -> Tensor:
    """Return a mask [m] of prominent bars, in input order: of bars above 0 at least one, never all of two or more.

    Bars of length 0 belong to coinciding points and are never prominent. Raises ValueError unless ``lengths`` is a
    finite floating tensor [m].
    """
    require_bars(lengths)
    if not lengths.isfinite().all():
        raise ValueError("Expected finite bars, got NaN or infinity: take those of barcode(x).")
    longest_first, order = lengths.detach().sort(descending=True, stable=True)
    mask = torch.zeros_like(lengths, dtype=torch.bool)
    mask[order[: _count_prominent(longest_first.cpu().double().numpy())]] = True
    return mask


def prominent_bars(lengths: Tensor) -> Score:
    """Return how many of the bars [m] are prominent, in [1, max(m - 1, 1)]; the points have one group more than that.

    Undefined where no bar is longer than 0, and for NaN or infinity.
    """
    require_bars(lengths)
    reason = explain_undefined_bars(lengths)
    return Score.undefined(reason) if reason is not None else Score(float(prominent_mask(lengths).sum()))


def gaussian_prominent_bars(n: int, d: int) -> Score:
    """Return the number of prominent bars of one standard Gaussian cloud of n points in d dimensions."""
    return prominent_bars(barcode(torch.from_numpy(np.random.default_rng(SEED).standard_normal((n, d)))))


def _count_prominent(lengths: NDArray[np.float64]) -> int:
    if not lengths.any():
        return 0
    shares = lengths / lengths[0]
    bars = shares[shares > 0]
    while True:
        # Find the first bar that is noise. For bar i, R is the longest bar and those after i. ``sums`` has their total
        # length P, and ``neutral`` the neutral length P / exp H(R): exp of the mean of log l over R, weighted by l.
        sums = 1 + bars[:0:-1].cumsum()[::-1]
        neutral = np.exp((bars * np.log(bars))[:0:-1].cumsum()[::-1] / sums)
        totals = sums + np.arange(len(bars) - 1) * neutral
        falls = np.flatnonzero(totals[:-1] < totals[1:] * (1 - ROUNDING))
        i = int(falls[0]) + 1 if len(falls) else max(len(bars) - 1, 1)
        if i >= len(bars) - 1 or i <= count_at_min_entropy(float(bars[-1]), len(bars)):
            return i
        bars = np.append(bars[:i], bars[-1])


def count_at_min_entropy(alpha: float, n: int) -> float:
    """Return the number Q of bars of length T at which n bars of lengths T and r = alpha T have least entropy.

    Q = n alpha (alpha - 1 - ln alpha) / (alpha - 1)^2 for alpha in (0, 1], a real number between 0 and n / 2.
    """
    gap = 1 - alpha
    if gap < 1e-4:  # rounding spoils the fraction there: use the first terms of its series
        return n * alpha * (1 / 2 + gap / 3)
    return float(n * alpha * (-gap - math.log(alpha)) / gap**2)
