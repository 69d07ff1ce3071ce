"""Which of several settings differ from their baseline: one rule, corrected for all of them in a single step."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from math import sqrt
from typing import NamedTuple

from app.results.statistics.estimate import quantile, two_sided_p
from app.results.statistics.mean_difference import FEWEST_SEEDS, MeanDifference, Spread
from app.results.statistics.simultaneous import half_width, tail

LEVEL = 0.05
POWER = 0.8
MOST_SEEDS, MOST_ROWS = 1_000, 1_000_000


class Verdict(StrEnum):
    """What can be said of a setting against its baseline."""

    BETTER = "better"
    WORSE = "worse"
    NONE_SEEN = "no difference seen"
    TOO_FEW = "too few seeds"


class Needed(NamedTuple):
    """What would show a difference of the size seen with power 0.8; None if no number suffices.

    Rows are given if no number of seeds suffices.
    """

    seeds: int | None
    rows: int | None


class Judged(NamedTuple):
    """A mean difference with its verdict, and the interval that agrees with it."""

    of: MeanDifference
    verdict: Verdict
    low: float | None
    high: float | None
    """Ends of the interval that holds all differences of the family at once in 95 of 100 cases."""
    p: float | None
    """Two-sided, of this difference alone."""
    p_adjusted: float | None
    """At most 0.05 exactly where the interval leaves out 0."""
    comparisons: int
    needed: Needed | None
    """None where the difference was seen, or nothing is known of its error."""


def judge(differences: Sequence[MeanDifference]) -> list[Judged]:
    """Judge a family of differences by Bonferroni: as many as can be judged at all share the level."""
    comparisons = sum(_judgeable(one) for one in differences)
    return [_judged(one, comparisons) for one in differences]


def _judgeable(one: MeanDifference) -> bool:
    return one.seeds >= FEWEST_SEEDS and one.error is not None


def _judged(one: MeanDifference, comparisons: int) -> Judged:
    if not _judgeable(one) or one.error is None:
        return Judged(one, Verdict.TOO_FEW, None, None, None, None, comparisons, None)
    if one.error == 0:  # the same answers in every row and seed: there is no difference to be unsure of
        return Judged(one, Verdict.NONE_SEEN, one.estimate, one.estimate, 1.0, 1.0, comparisons, None)
    half, p = quantile(LEVEL / comparisons, one.degrees) * one.error, two_sided_p(one.estimate / one.error, one.degrees)
    p_adjusted = comparisons * p
    if comparisons > 1 and one.spread is not None:
        half = max(half, half_width(LEVEL / comparisons, one.spread))
        p_adjusted = max(p_adjusted, comparisons * tail(one.estimate, one.spread))
    low, high = one.estimate - half, one.estimate + half
    verdict = Verdict.BETTER if low > 0 else Verdict.WORSE if high < 0 else Verdict.NONE_SEEN
    needed = _needed(one, comparisons) if verdict is Verdict.NONE_SEEN else None
    return Judged(one, verdict, low, high, p, min(1.0, p_adjusted), comparisons, needed)


def _needed(one: MeanDifference, comparisons: int) -> Needed | None:
    if one.estimate == 0 or one.error is None:
        return None
    level = LEVEL / comparisons

    def enough(error: float, degrees: float) -> bool:
        reach = quantile(level, degrees) + quantile(2 * (1 - POWER), degrees)
        return abs(one.estimate) >= reach * error

    spread, error = one.spread, one.error
    if spread is None or one.rows is None:
        return Needed(_fewest(lambda n: enough(error * sqrt(one.seeds / n), n - 1), one.seeds + 1, MOST_SEEDS), None)
    rows = one.rows
    seeds = _fewest(lambda n: _shows(spread.of_others(n, rows), enough), one.seeds + 1, MOST_SEEDS)
    if seeds is not None:
        return Needed(seeds, None)
    return Needed(None, _fewest(lambda n: _shows(spread.of_others(one.seeds, n), enough), rows, MOST_ROWS))


def _shows(spread: Spread, enough: Callable[[float, float], bool]) -> bool:
    return enough(sqrt(spread.variance), spread.degrees)


def _fewest(enough: Callable[[int], bool], low: int, most: int) -> int | None:
    """Return the least number from ``low`` that is enough, by bisection; None where the most is not."""
    if not enough(most):
        return None
    high = most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low
