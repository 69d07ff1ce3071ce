"""Whether two quantities go together over runs, with p-values by rearrangement within blocks."""

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from app.statistics.rearrangements import Rearrangements, rearrangements

FEWEST = 3
ROUNDING = 1e-12
"""Coefficients this close are the same: sums in another order round otherwise."""

Values = npt.NDArray[np.float64]


class Coefficient(NamedTuple):
    """A correlation from -1 to 1 with its two-sided p-value, or the reason why there is none."""

    value: float | None
    p: float | None
    positive: bool
    """Whether it is greater than most rearrangements leave it; its sign may differ, where seeds differ much."""
    reason: str | None = None


class Correlation(NamedTuple):
    """Spearman's and Pearson's coefficients of ``n`` pairs, and what their p-values rest on."""

    n: int
    spearman: Coefficient
    pearson: Coefficient
    permutations: int
    """How many rearrangements the p-values are of; 0 where there is none."""
    exact: bool
    smallest_p: float | None
    """What no p-value of so few runs can fall below."""


@lru_cache(maxsize=32)
def correlation(
    x: tuple[float, ...], y: tuple[float, ...], seeds: tuple[Hashable, ...], groups: tuple[Hashable, ...]
) -> Correlation:
    """Of finite values, within groups: means of groups, or their ranks, do not enter. One group is the usual case.

    A p-value is twice the smaller tail of y rearranged within each seed of each group against x.
    """
    n, places = len(x), _places(groups)
    values = _scaled(x), _scaled(y)
    if reason := _undefined(*values, places):
        nothing = Coefficient(None, None, positive=False, reason=reason)
        return Correlation(n, nothing, nothing, 0, exact=True, smallest_p=None)
    linear = _standard(values[0], places), _standard(values[1], places)
    ranked = _standard(_ranks(values[0], places), places), _standard(_ranks(values[1], places), places)
    moved = rearrangements(list(zip(seeds, groups, strict=True)))
    if not moved.blocks:
        return Correlation(n, _untested(*ranked), _untested(*linear), 0, exact=True, smallest_p=None)
    spearman, pearson = _tested([ranked, linear], moved)
    return Correlation(n, spearman, pearson, moved.total, moved.exact, moved.smallest_p)


def ranks(values: Values) -> Values:
    """Ranks from 1; equal values share the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place], float)


def _places(groups: Sequence[Hashable]) -> list[list[int]]:
    gathered: dict[Hashable, list[int]] = {}
    for place, group in enumerate(groups):
        gathered.setdefault(group, []).append(place)
    return list(gathered.values())


def _scaled(values: Sequence[float] | Values) -> Values:
    """As parts of the greatest of them, so that no square of the very great or very small is lost."""
    found = np.array(values, float)
    return np.asarray(found / (np.abs(found).max(initial=0.0) or 1.0), float)


def _undefined(x: Values, y: Values, places: Sequence[list[int]]) -> str | None:
    if len(x) < FEWEST:
        return f"A correlation needs {FEWEST} runs or more that have both values; there are {len(x)}."
    alike = " of what is alike in all else" if len(places) > 1 else ""
    for name, values in (("isotropy", x), ("performance", y)):
        if all(np.ptp(values[group]) == 0 for group in places):
            return f"All runs{alike} have the same {name}, so there is no correlation."
    return None


def _tested(pairs: Sequence[tuple[Values, Values]], moved: Rearrangements) -> list[Coefficient]:
    """Both coefficients by the same rearrangements."""
    found = [_coefficient(x, y) for x, y in pairs]
    upper, lower = [0] * len(pairs), [0] * len(pairs)
    places = moved.places
    unmoved = [x @ y - x[places] @ y[places] for x, y in pairs]
    for orders in moved.orders():
        for one, (x, y) in enumerate(pairs):
            null = y[orders] @ x[places] + unmoved[one]
            upper[one] += int((null >= found[one] - ROUNDING).sum())
            lower[one] += int((null <= found[one] + ROUNDING).sum())
    tails = [(moved.share(above), moved.share(below)) for above, below in zip(upper, lower, strict=True)]
    return [
        Coefficient(value, min(1.0, 2 * min(above, below)), positive=above < below)
        for value, (above, below) in zip(found, tails, strict=True)
    ]


def _untested(x: Values, y: Values) -> Coefficient:
    found = _coefficient(x, y)
    reason = "There is no p: in no seed did two settings finish, so there is nothing to permute."
    return Coefficient(found, None, positive=found > 0, reason=reason)


def _coefficient(x: Values, y: Values) -> float:
    return float(np.clip(x @ y, -1, 1))


def _ranks(values: Values, places: Sequence[list[int]]) -> Values:
    """Within each group, as a part of it, so that groups of all sizes count alike."""
    found = np.empty_like(values)
    for group in places:
        found[group] = ranks(values[group]) / (len(group) + 1)
    return found


def _standard(values: Values, places: Sequence[list[int]]) -> Values:
    """Less the mean of its group, and of length 1 together.

    Seen from a value of the group, so that one whose values are all alike is nothing but 0, however small the others.
    """
    centred = np.empty_like(values)
    for group in places:
        seen = values[group] - values[group[0]]
        centred[group] = seen - seen.mean()
    centred = _scaled(centred)
    return np.asarray(centred / np.linalg.norm(centred), float)
