"""Rearrangements within blocks: all of them where they are few, else a number drawn by a fixed seed."""

from collections.abc import Hashable, Iterator, Sequence
from functools import reduce
from itertools import permutations
from math import factorial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MOST_EXACT = 10_000
MOST_DRAWN = 9_999
FEWEST_DRAWN = 999
MOST_PLACES = 2_000_000
"""Values that all draws move together: of many runs fewer rearrangements are drawn, so that a page need not wait."""
AT_ONCE = 500_000
"""Values that are in memory at a time."""

Places = npt.NDArray[np.intp]


class Rearrangements(NamedTuple):
    """What moves values within their blocks; what is alone in its block stays where it is."""

    blocks: list[Places]
    """The places of each block that has several."""
    total: int
    exact: bool
    """All there are, the one that was observed among them; else draws."""

    @property
    def places(self) -> Places:
        """What moves at all, in the order of the columns of ``orders``."""
        return np.concatenate(self.blocks) if self.blocks else np.empty(0, np.intp)

    def orders(self) -> Iterator[Places]:
        """Index arrays, one a row: where the values come from that are moved to ``places``; some rows at a time."""
        at_once = max(1, AT_ONCE // max(len(self.places), 1))
        random = np.random.default_rng(0)
        for start in range(0, self.total, at_once):
            rows = min(at_once, self.total - start)
            parts = self._all(start, rows) if self.exact else [_drawn(block, rows, random) for block in self.blocks]
            yield np.concatenate(parts, axis=1) if parts else np.empty((rows, 0), np.intp)

    def share(self, extreme: int) -> float:
        """The p-value, given how many are at least as extreme; what was observed counts among draws."""
        return extreme / self.total if self.exact else (extreme + 1) / (self.total + 1)

    @property
    def smallest_p(self) -> float:
        """What a two-sided p-value cannot fall below."""
        return min(1.0, 2 / (self.total + (not self.exact)))

    def _all(self, start: int, rows: int) -> list[Places]:
        which = np.arange(start, start + rows)
        parts = []
        for block in self.blocks:
            which, here = np.divmod(which, factorial(len(block)))
            parts.append(np.array(list(permutations(block)))[here])
        return parts


def rearrangements(blocks: Sequence[Hashable]) -> Rearrangements:
    """Of values that belong to these blocks."""
    gathered: dict[Hashable, list[int]] = {}
    for place, block in enumerate(blocks):
        gathered.setdefault(block, []).append(place)
    members = [np.array(places, np.intp) for places in gathered.values() if len(places) > 1]
    if (total := _how_many(members)) <= MOST_EXACT:
        return Rearrangements(members, total, exact=True)
    draws = min(MOST_DRAWN, max(FEWEST_DRAWN, MOST_PLACES // len(blocks)))
    return Rearrangements(members, draws, exact=False)


def _how_many(members: Sequence[Places]) -> int:
    """As far as it matters: the factorial of a thousand runs has thousands of digits."""
    return reduce(lambda found, block: min(found * factorial(min(len(block), 8)), MOST_EXACT + 1), members, 1)


def _drawn(block: Places, rows: int, random: np.random.Generator) -> Places:
    return random.permuted(np.tile(block, (rows, 1)), axis=1)
