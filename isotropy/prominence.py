"""Prominent bars: the longest bars of a barcode, by a rule made to tell separate groups of points from noise.

The rule does not keep its promise in many dimensions, where bars are about equal: of one Gaussian cloud it calls dozens
to hundreds prominent. So their number is told beside that of a Gaussian of the same size.

The rule of Atienza, Gonzalez-Diaz & Rucco (2019), by which Kudriashov, Karpik & Klyshinsky (2025) choose the bars to
shrink. Of n bars the longest, T, is always prominent, and the shortest, r, is always noise. The others are tried from
the longest down. Bar i is tried by giving the first i of them (T is not among them) the neutral length, which makes the
entropy of the barcode as great as it can be while the bars R_i, T and those after bar i, stay as they are. It stands
out if the share of T in the sum of all bars does not fall by that. The first that does not is noise, and so are all
after it.

A barcode of lengths T and r alone has least entropy with a certain number Q of bars of length T. If more bars than that
stand out, the rule is applied again to them and r.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.score import Score
from isotropy.topology import barcode, require_bars, why_undefined

SEED = 0  # Seed of the Gaussian cloud
# Relative difference up to which two sums of bars count as equal, since equal bars may differ by rounding.
ROUNDING = 1e-12


def prominent(lengths: Tensor) -> Tensor:
    """Return which of the bars [m] are prominent: bool [m], in the order given, on their device, without a gradient.

    At least one; of two and more not all. A bar of length 0 belongs to points that coincide: it is left out before the
    rule, by which it would be the shortest, and is not prominent. Nothing is, where all are 0.

    Raises:
        ValueError: ``lengths`` is not a floating tensor [m], or not finite.

    """
    require_bars(lengths)
    if not lengths.isfinite().all():
        raise ValueError("Expected finite bars, got NaN or infinity: take those of barcode(x).")
    longest_first, order = lengths.detach().sort(descending=True, stable=True)
    mask = torch.zeros_like(lengths, dtype=torch.bool)
    mask[order[: _count(longest_first.cpu().double().numpy())]] = True
    return mask


def prominent_bars(lengths: Tensor) -> Score:
    """Return the number of prominent bars of [m], in [1, max(m - 1, 1)]: without them there is one more group.

    Undefined where no bar is longer than 0, and for NaN or infinity.

    Raises:
        ValueError: ``lengths`` is not a floating tensor [m].

    """
    require_bars(lengths)
    reason = why_undefined(lengths)
    return Score.undefined(reason) if reason is not None else Score(float(prominent(lengths).sum()))


def gaussian_prominent_bars(n: int, d: int) -> Score:
    """Return the number of prominent bars of a Gaussian cloud of n points in d dimensions, with a fixed seed."""
    return prominent_bars(barcode(torch.from_numpy(np.random.default_rng(SEED).standard_normal((n, d)))))


def _count(lengths: NDArray[np.float64]) -> int:
    """Return the number of prominent bars of lengths [m], descending."""
    if not lengths.any():
        return 0
    shares = lengths / lengths[0]
    bars = shares[shares > 0]
    while True:
        i = _first_noise(bars)
        if i >= len(bars) - 1 or i <= least_entropy(float(bars[-1]), len(bars)):
            return i
        bars = np.append(bars[:i], bars[-1])


def _first_noise(bars: NDArray[np.float64]) -> int:
    """Return the index of the first of ``bars`` [n], descending from T = 1, that is noise; T has index 0."""
    i = np.arange(len(bars) - 1)
    # Of R_i, T and bars[i + 1:], the sum P_i and the mean of log l weighted by l, the log of P_i / exp H(R_i).
    sums = 1 + bars[:0:-1].cumsum()[::-1]
    neutral = np.exp((bars * np.log(bars))[:0:-1].cumsum()[::-1] / sums)
    totals = sums + i * neutral
    falls = np.flatnonzero(totals[:-1] < totals[1:] * (1 - ROUNDING))
    return int(falls[0]) + 1 if len(falls) else max(len(bars) - 1, 1)


def least_entropy(alpha: float, n: int) -> float:
    """Return the number Q of bars of length T that gives n bars of lengths T and r = alpha T least entropy.

    Q = n alpha (alpha - 1 - ln alpha) / (alpha - 1)^2 for alpha in (0, 1]: a real number between 0 and n / 2.
    """
    gap = 1 - alpha
    if gap < 1e-4:  # there both sides of the fraction are rounding; these are the first terms of its series
        return n * alpha * (1 / 2 + gap / 3)
    return float(n * alpha * (-gap - math.log(alpha)) / gap**2)
