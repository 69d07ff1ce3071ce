"""Cutoffs of a similarity with a guaranteed rate of misses or of false matches, and P(match) with a band."""

from math import ceil, floor, log, log10

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.stats import beta, binom

from isotropy.catalog.calibration import CurvePoint, PairShare, PromiseKind
from isotropy.tasks.bootstrap import LEVEL, Numbers

CURVE_POINTS = 41
SMALLEST_WINDOW = 8  # Pairs in the smallest window; each further window is twice as wide
ROUNDING_MARGIN = 0.1  # Minimum distance of a cutoff, in units of its last digit, from the similarity that sets it


def count_share(is_counted: NDArray[np.bool_]) -> PairShare | None:
    """Return the share of true items [n] with its interval; None if there are no items."""
    n, count = len(is_counted), int(is_counted.sum())
    if not n:
        return None
    low, high = _share_bound(count, n, (1 - LEVEL) / 2), _share_bound(count, n, (1 + LEVEL) / 2)
    return PairShare(count / n, float(low), float(high), n)


def fewest_labels(promise: float, risk: float = 1 - LEVEL) -> int:
    """Return the number of labels from which a cutoff can promise a rate: (1 - promise)^n is at most ``risk``."""
    return ceil(log(risk) / log(1 - promise))


def allowed_errors(n: int, promise: float, risk: float = 1 - LEVEL) -> int:
    """Return the largest number of errors among n labels that keeps a promised rate; -1 if even 0 is too many.

    It is the largest k with P(Bin(n, promise) <= k) at most ``risk``: the k-th order statistic is a one-sided
    tolerance limit, whatever the distribution (Wilks 1941). Ties only lower the true rate.
    """
    k = int(binom.ppf(risk, n, promise))
    return k if binom.cdf(k, n, promise) <= risk else k - 1


def cutoff_unit(similarities: Numbers) -> float:
    """Return the power of ten to which cutoffs are rounded: the similarities spread over 1,000 to 10,000 of it."""
    spread = float(np.ptp(similarities)) or float(np.abs(similarities).max()) or 1.0
    return float(10.0 ** (floor(log10(spread)) - 3))


def find_cutoff(
    similarities: Numbers, kind: PromiseKind, promise: float, unit: float, risk: float = 1 - LEVEL
) -> float | None:
    """Return the minimum similarity of a predicted match, or None if the promise needs more labels.

    ``similarities`` are those of labeled matches if the promise is a rate of misses, else of labeled non-matches; pairs
    must be independent. With probability 1 - ``risk``, at most ``promise`` of the population is on the wrong side of
    the cutoff. The cutoff is rounded to a multiple of ``unit``, in the direction of fewer such errors.
    """
    allowed = allowed_errors(len(similarities), promise, risk)
    if allowed < 0:
        return None
    if kind is PromiseKind.MISS:
        limit = np.partition(similarities, allowed)[allowed]
        steps = floor(limit / unit - ROUNDING_MARGIN)
    else:
        limit = -np.partition(-similarities, allowed)[allowed]
        steps = ceil(limit / unit + ROUNDING_MARGIN)
    return float(f"{steps * unit:.12g}")


def match_curve(similarities: Numbers, is_match: NDArray[np.bool_], seed: int, sign: int = 1) -> list[CurvePoint]:
    """Return P(match) at quantiles of the similarities [m] of independent pairs, by isotonic regression.

    The band assumes only that P(match) never falls as the similarity rises. Its lower end is the highest 95%
    Clopper-Pearson bound of the 8, 16, 32 ... pairs up to a similarity, its upper end the lowest of those from it on.
    At a similarity the band covers P(match) in .986 to 1 of simulated samples (benchmarks/_calibration_cutoffs.py).
    ``sign`` is -1 if the similarities are negative distances: the points of the curve then hold distances.
    """
    order = np.lexsort((np.random.default_rng(seed).random(len(similarities)), similarities))  # no order among ties
    x, y = similarities[order], is_match[order].astype(np.float64)
    distinct, first, counts = np.unique(x, return_index=True, return_counts=True)
    shares = isotonic_regression(np.add.reduceat(y, first) / counts, weights=counts.astype(np.float64)).x
    quantile_positions = np.unique(np.linspace(0, len(x) - 1, CURVE_POINTS).round().astype(np.int64))
    positions = np.unique(np.searchsorted(distinct, x[quantile_positions]))
    cumulative_matches = np.concatenate([[0], y.cumsum()])
    widths = [width for power in range(len(x).bit_length()) if (width := SMALLEST_WINDOW * 2**power) <= len(x)]
    tail = (1 - LEVEL) / 2
    low, high = np.zeros(len(positions)), np.ones(len(positions))
    starts, ends = first[positions], first[positions] + counts[positions]
    for width in widths:
        fits = ends >= width
        match_counts = cumulative_matches[ends[fits]] - cumulative_matches[ends[fits] - width]
        low[fits] = np.maximum(low[fits], _share_bound(match_counts, width, tail))
        fits = starts + width <= len(x)
        match_counts = cumulative_matches[starts[fits] + width] - cumulative_matches[starts[fits]]
        high[fits] = np.minimum(high[fits], _share_bound(match_counts, width, 1 - tail))
    # Widened to rise with the similarity, as P(match) does, and to hold the curve.
    low = np.minimum.accumulate(np.minimum(low, shares[positions])[::-1])[::-1]
    high = np.maximum.accumulate(np.maximum(high, shares[positions]))
    columns = np.stack([sign * distinct[positions], shares[positions], low, high])
    return [CurvePoint(*point) for point in columns.T[::sign].tolist()]


def _share_bound(counts: Numbers | int, n: int, level: float) -> Numbers:
    """Return Clopper and Pearson's bound of the share ``counts`` / n: lower for a ``level`` below 1/2, else upper."""
    is_upper = int(level > 1 / 2)
    a, b = np.add(counts, is_upper), n - np.asarray(counts) + 1 - is_upper
    bounds: Numbers = np.where((b if is_upper else a) == 0, float(is_upper), beta.ppf(level, a, b))
    return bounds
