"""Tails of a mean difference over rows and seeds that hold far out, where several comparisons share the level.

Satterthwaite's degrees of freedom hold at 95% and fail beyond: with three seeds and twelve comparisons, .19 in place of
.05 of families have a false verdict, since a seed variance that comes out small by chance also makes the degrees large.
Here that variance is averaged over what it can be, given its mean square (a fiducial distribution, as in the
Behrens-Fisher problem), never below what rows leave of it.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import erfc, lgamma, log, sqrt

import numpy as np
import numpy.typing as npt

from app.results.statistics.mean_difference import Spread

NODES = 160
Values = npt.NDArray[np.float64]


def tail(difference: float, spread: Spread) -> float:
    """Return the two-sided p of a mean difference."""
    return _tail(abs(difference), _variances(spread), _chi_square(spread.seeds - 1)[1])


def half_width(p: float, spread: Spread) -> float:
    """Return the difference whose two-sided p is this: by bisection, to nine digits."""
    variances, weights = _variances(spread), _chi_square(spread.seeds - 1)[1]
    low, high = 0.0, sqrt(spread.variance)
    while _tail(high, variances, weights) > p:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _tail(middle, variances, weights) > p else (low, middle)
    return high


def _tail(difference: float, variances: Values, weights: Values) -> float:
    of_one = [erfc(one) for one in (difference / np.sqrt(2 * variances)).tolist()]
    return float(weights @ np.array(of_one))


def _variances(spread: Spread) -> Values:
    """Return what the variance of the mean difference can be, at the nodes of the distribution of the seeds' part."""
    nodes, _ = _chi_square(spread.seeds - 1)
    seeds = np.maximum(spread.of_seeds * (spread.seeds - 1) / nodes, spread.of_rest)
    return np.asarray((seeds + max(spread.of_rows - spread.of_rest, 0.0)) / (spread.seeds * spread.rows), float)


@lru_cache(maxsize=64)
def _chi_square(degrees: int) -> tuple[Values, Values]:
    """Return nodes of the chi-square distribution and their weights: equal steps of its logarithm."""
    logarithms = np.linspace(log(degrees) - 60 / degrees - 5, log(degrees + 12 * sqrt(2 * degrees) + 60), NODES)
    scale = degrees / 2 * log(2) + lgamma(degrees / 2)
    weights = np.exp(degrees / 2 * logarithms - np.exp(logarithms) / 2 - scale)
    return np.exp(logarithms), np.asarray(weights / weights.sum(), float)


def holm(p_values: Sequence[float]) -> list[float]:
    """The adjusted p-values in the order given: below a level, the family-wise error stays below it, too."""
    p = np.asarray(p_values, float)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return [float(one) for one in np.minimum(adjusted, 1)]
