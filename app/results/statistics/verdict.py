"""Which settings differ from their baseline: one rule, corrected for all of them in a single step.

Satterthwaite's degrees of freedom hold at 95% and fail beyond: with three seeds and twelve comparisons, .19 in place of
.05 of families have a false verdict, since a seed variance that comes out small by chance also makes the degrees large.
Here that variance is averaged over what it can be, given its mean square (a fiducial distribution, as in the
Behrens-Fisher problem), never below what rows leave of it.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import lru_cache
from math import erfc, lgamma, log, sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from app.core.evidence import MIN_SEEDS, SIGNIFICANCE_LEVEL, t_quantile, two_sided_p
from app.results.statistics.mean_difference import MeanDifference, Spread

NODES = 160
Values = npt.NDArray[np.float64]


def tail(difference: float, spread: Spread) -> float:
    """Return the two-sided p of a mean difference."""
    return _tail(abs(difference), _variances(spread), _chi_square(spread.seeds - 1)[1])


def half_width(p: float, spread: Spread) -> float:
    """Return the difference whose two-sided p is ``p``, by bisection to nine digits."""
    variances, weights = _variances(spread), _chi_square(spread.seeds - 1)[1]
    low, high = 0.0, sqrt(spread.variance)
    while _tail(high, variances, weights) > p:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _tail(middle, variances, weights) > p else (low, middle)
    return high


def _tail(difference: float, variances: Values, weights: Values) -> float:
    tails = [erfc(scaled) for scaled in (difference / np.sqrt(2 * variances)).tolist()]
    return float(weights @ np.array(tails))


def _variances(spread: Spread) -> Values:
    """Return possible variances of the mean difference, at the nodes of the distribution of the seeds' component."""
    nodes, _ = _chi_square(spread.seeds - 1)
    seeds = np.maximum(spread.of_seeds * (spread.seeds - 1) / nodes, spread.of_rest)
    return np.asarray((seeds + max(spread.of_rows - spread.of_rest, 0.0)) / (spread.seeds * spread.rows), float)


@lru_cache(maxsize=64)
def _chi_square(degrees: int) -> tuple[Values, Values]:
    """Return nodes of the chi-square distribution and their weights, at equal steps of the logarithm."""
    logarithms = np.linspace(log(degrees) - 60 / degrees - 5, log(degrees + 12 * sqrt(2 * degrees) + 60), NODES)
    scale = degrees / 2 * log(2) + lgamma(degrees / 2)
    weights = np.exp(degrees / 2 * logarithms - np.exp(logarithms) / 2 - scale)
    return np.exp(logarithms), np.asarray(weights / weights.sum(), float)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Holm, in their original order, which bounds the family-wise error."""
    p = np.asarray(p_values, float)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return [float(p_value) for p_value in np.minimum(adjusted, 1)]


POWER = 0.8
MOST_SEEDS, MOST_ROWS = 1_000, 1_000_000


class Verdict(StrEnum):
    """The outcome of comparing a setting with its baseline."""

    BETTER = "better"
    WORSE = "worse"
    NONE_SEEN = "no difference seen"
    TOO_FEW = "too few seeds"


class NeededSize(NamedTuple):
    """Seeds or rows that would show a difference of the observed size with power 0.8; None if no number suffices.

    Rows are given if no number of seeds suffices.
    """

    seeds: int | None
    rows: int | None


class JudgedDifference(NamedTuple):
    """A mean difference with its verdict, and the interval that agrees with it."""

    difference: MeanDifference
    verdict: Verdict
    low: float | None
    high: float | None
    """Ends of the interval that holds all differences of the family at once in 95 of 100 cases; None without an error.

    Where no row differs there is none either: of 8 rows alike, 31% of others may still differ.
    """
    p: float | None
    """Two-sided, of this difference alone."""
    p_adjusted: float | None
    """At most 0.05 exactly where the interval leaves out 0."""
    comparisons: int
    needed: NeededSize | None
    """None if the verdict is decided, or the error is unknown."""


def judge(differences: Sequence[MeanDifference]) -> list[JudgedDifference]:
    """Judge a family of differences, with Bonferroni's correction for those that can be judged."""
    comparisons = sum(_can_judge(difference) for difference in differences)
    return [_judge_difference(difference, comparisons) for difference in differences]


def _can_judge(difference: MeanDifference) -> bool:
    return difference.seeds >= MIN_SEEDS and difference.error is not None


def _judge_difference(difference: MeanDifference, comparisons: int) -> JudgedDifference:
    if not _can_judge(difference) or difference.error is None:
        return JudgedDifference(difference, Verdict.TOO_FEW, None, None, None, None, comparisons, None)
    # Equal answers in every row and seed show no difference, but not how small it is elsewhere.
    if difference.error == 0:
        return JudgedDifference(difference, Verdict.NONE_SEEN, None, None, 1.0, 1.0, comparisons, None)
    half, p = (
        _interval_half_width(difference.error, difference.degrees, difference.spread, comparisons),
        two_sided_p(difference.estimate / difference.error, difference.degrees),
    )
    p_adjusted = comparisons * p
    if comparisons > 1 and difference.spread is not None:
        p_adjusted = max(p_adjusted, comparisons * tail(difference.estimate, difference.spread))
    low, high = difference.estimate - half, difference.estimate + half
    verdict = Verdict.BETTER if low > 0 else Verdict.WORSE if high < 0 else Verdict.NONE_SEEN
    needed = _needed(difference, comparisons) if verdict is Verdict.NONE_SEEN else None
    return JudgedDifference(difference, verdict, low, high, p, min(1.0, p_adjusted), comparisons, needed)


def _interval_half_width(error: float, degrees: float, spread: Spread | None, comparisons: int) -> float:
    """Return half the width of an interval that is simultaneous over this number of comparisons."""
    half = t_quantile(SIGNIFICANCE_LEVEL / comparisons, degrees) * error
    if comparisons > 1 and spread is not None:
        half = max(half, half_width(SIGNIFICANCE_LEVEL / comparisons, spread))
    return half


def _needed(difference: MeanDifference, comparisons: int) -> NeededSize | None:
    if difference.estimate == 0 or difference.error is None:
        return None

    def enough(error: float, degrees: float, spread: Spread | None = None) -> bool:
        reach = _interval_half_width(error, degrees, spread, comparisons) + t_quantile(2 * (1 - POWER), degrees) * error
        return abs(difference.estimate) >= reach

    def shows(spread: Spread) -> bool:
        return enough(sqrt(spread.variance), spread.degrees, spread)

    spread, error = difference.spread, difference.error
    if spread is None or difference.rows is None:
        return NeededSize(
            _find_smallest(
                lambda n: enough(error * sqrt(difference.seeds / n), n - 1), difference.seeds + 1, MOST_SEEDS
            ),
            None,
        )
    rows = difference.rows
    seeds = _find_smallest(lambda n: shows(spread.expected_with(n, rows)), difference.seeds + 1, MOST_SEEDS)
    if seeds is not None:
        return NeededSize(seeds, None)
    return NeededSize(None, _find_smallest(lambda n: shows(spread.expected_with(difference.seeds, n)), rows, MOST_ROWS))


def _find_smallest(enough: Callable[[int], bool], low: int, maximum: int) -> int | None:
    """Return the smallest number from ``low`` that is enough, by bisection; None if ``maximum`` is not enough."""
    if not enough(maximum):
        return None
    high = maximum
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low
