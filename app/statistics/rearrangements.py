"""Rearrangements within blocks: all of them where they are few, else a number drawn by a fixed seed."""

from collections.abc import Hashable, Sequence
from itertools import permutations
from math import factorial, prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MOST_EXACT = 10_000
MOST_DRAWN = 9_999
FEWEST_DRAWN = 1_999
MOST_PLACES = 2_000_000
"""Values that all draws move together: of many runs fewer rearrangements are drawn, so that a page need not wait."""


class Rearrangements(NamedTuple):
    """Index arrays, one a row; each moves values within their blocks only."""

    orders: npt.NDArray[np.intp]
    exact: bool
    """All there are, the one that was observed among them; else draws."""

    def share(self, extreme: npt.NDArray[np.bool_]) -> float:
        """The p-value, given which rearrangements are at least as extreme; what was observed counts among draws."""
        found, of = int(extreme.sum()), len(extreme)
        return found / of if self.exact else (found + 1) / (of + 1)

    @property
    def smallest_p(self) -> float:
        """What a two-sided p-value cannot fall below."""
        return min(1.0, 2 / (len(self.orders) + (not self.exact)))


def rearrangements(blocks: Sequence[Hashable]) -> Rearrangements:
    """Of values that belong to these blocks."""
    gathered: dict[Hashable, list[int]] = {}
    for place, block in enumerate(blocks):
        gathered.setdefault(block, []).append(place)
    members = [np.array(places) for places in gathered.values()]
    sizes = [factorial(len(places)) for places in members]
    if prod(sizes) <= MOST_EXACT:
        return Rearrangements(_all(members, sizes, len(blocks)), exact=True)
    return Rearrangements(_drawn(members, len(blocks)), exact=False)


def _all(members: Sequence[npt.NDArray[np.intp]], sizes: Sequence[int], n: int) -> npt.NDArray[np.intp]:
    total = prod(sizes)
    orders = np.empty((total, n), np.intp)
    for places, which in zip(members, np.unravel_index(np.arange(total), sizes), strict=True):
        orders[:, places] = np.array(list(permutations(places)))[which]
    return orders


def _drawn(members: Sequence[npt.NDArray[np.intp]], n: int) -> npt.NDArray[np.intp]:
    draws = min(MOST_DRAWN, max(FEWEST_DRAWN, MOST_PLACES // n))
    random = np.random.default_rng(0)
    orders = np.empty((draws, n), np.intp)
    for places in members:
        orders[:, places] = places[random.random((draws, len(places)), np.float32).argsort(axis=1)]
    return orders
