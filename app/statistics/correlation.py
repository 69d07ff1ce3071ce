"""Whether two quantities go together over runs, with p-values by rearrangement within blocks."""

from collections.abc import Hashable
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


@lru_cache(maxsize=128)
def correlation(x: tuple[float, ...], y: tuple[float, ...], blocks: tuple[Hashable, ...]) -> Correlation:
    """Of finite values. A p-value is twice the smaller tail of y rearranged within each block against x."""
    n = len(x)
    reason = _undefined(np.array(x), np.array(y))
    if reason:
        nothing = Coefficient(None, None, reason)
        return Correlation(n, nothing, nothing, 0, exact=True, smallest_p=None)
    moved = rearrangements(blocks)
    if len(moved.orders) == 1:
        reason = "There is no p: in no seed did two settings finish, so there is nothing to permute."
        spearman, pearson = (
            Coefficient(value, None, reason)
            for value in (_coefficient(ranks(np.array(x)), ranks(np.array(y))), _coefficient(np.array(x), np.array(y)))
        )
        return Correlation(n, spearman, pearson, 1, exact=True, smallest_p=None)
    return Correlation(
        n,
        _tested(ranks(np.array(x)), ranks(np.array(y)), moved),
        _tested(np.array(x), np.array(y), moved),
        len(moved.orders),
        moved.exact,
        moved.smallest_p,
    )


def ranks(values: Values) -> Values:
    """Ranks from 1; equal values share the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]


def _undefined(x: Values, y: Values) -> str | None:
    if len(x) < FEWEST:
        return f"A correlation needs {FEWEST} runs or more that have both values; there are {len(x)}."
    for name, values in (("isotropy", x), ("performance", y)):
        if np.ptp(values) == 0:
            return f"All {len(x)} runs have the same {name}, so there is no correlation."
    return None


def _tested(x: Values, y: Values, moved: Rearrangements) -> Coefficient:
    found = _coefficient(x, y)
    null = _standard(y)[moved.orders] @ _standard(x)
    tails = (moved.share(null >= found - ROUNDING), moved.share(null <= found + ROUNDING))
    return Coefficient(found, min(1.0, 2 * min(tails)))


def _coefficient(x: Values, y: Values) -> float:
    return float(np.clip(_standard(x) @ _standard(y), -1, 1))


def _standard(values: Values) -> Values:
    centred = values - values.mean()
    return np.asarray(centred / np.linalg.norm(centred), float)
