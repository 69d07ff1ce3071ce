"""Whether a mean of paired differences is more than chance: exact sign flips, however few pairs there are."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MOST_EXACT_PAIRS = 13
DRAWN = 9_999
ROUNDING = 1e-12


class SignFlips(NamedTuple):
    """The two-sided p-value of a mean difference under flips of the pairs' signs."""

    p: float
    smallest_p: float
    """What so few pairs cannot fall below, however great the difference."""
    flips: int
    exact: bool


def sign_flips(differences: Sequence[float]) -> SignFlips:
    """Of one finite difference a pair. If neither of a pair were better, each sign would be as likely as the other."""
    d = np.asarray(differences, float)
    d = d / (np.abs(d).max() or 1.0)
    exact = len(d) <= MOST_EXACT_PAIRS
    signs = _all(len(d)) if exact else _drawn(len(d))
    extreme = np.abs(signs @ d) >= abs(d.sum()) - ROUNDING * np.abs(d).sum()
    found, of = int(extreme.sum()), len(extreme)
    return SignFlips(found / of if exact else (found + 1) / (of + 1), smallest_p(len(d)), of, exact)


def smallest_p(pairs: int) -> float:
    """What a p-value of so many pairs cannot fall below: 2 / 2^n, or 1 / 10,000 where flips are drawn."""
    return 2 / 2**pairs if pairs <= MOST_EXACT_PAIRS else 1 / (DRAWN + 1)


def pairs_needed(level: float, comparisons: int) -> int | None:
    """The fewest pairs of which the smallest p, times the comparisons as Holm has it, is at most this level.

    None where no number is enough, because the flips that are drawn cannot tell so small a p.
    """
    return next((n for n in range(1, MOST_EXACT_PAIRS + 2) if comparisons * smallest_p(n) <= level), None)


def _all(n: int) -> npt.NDArray[np.float64]:
    return np.asarray(2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1) - 1, float)


@lru_cache(maxsize=8)
def _drawn(n: int) -> npt.NDArray[np.float64]:
    return np.asarray(2.0 * np.random.default_rng(0).integers(0, 2, (DRAWN, n)) - 1, float)
