"""Standard errors from one pass over the rows: a jackknife that leaves out blocks of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
from torch import Tensor

from isotropy.score import FEWEST_FOR_SE, Score
from isotropy.spectrum import CHUNK_ROWS

BLOCKS = 10
"""Blocks where memory allows: a standard error from B of them is itself uncertain by 1 / sqrt(2 (B - 1)), 24 %."""

MAX_BYTES = 512 * 2**20
"""Memory for the parts of all blocks."""

ROUNDS = 8
"""Turns of each block, if there are rows enough: of a file sorted by class each block gets a part of every class."""

SEED = 0
"""Of the orders in which the blocks take their turns: the same rows have the same standard errors."""


class Part(Protocol):
    """Moments of some of the points, such as ``Moments``, ``FourthMoments`` and ``CosineMoments``."""

    n: int

    def update(self, x: Tensor) -> None:
        """Add points [n, d]."""

    def merge(self, other: Self) -> None:
        """Add the points that ``other`` has seen."""


P = TypeVar("P", bound=Part)


def blocks_within(numbers: int) -> int:
    """Return how many blocks, from 1 to ``BLOCKS``, stay within ``MAX_BYTES``, if a part is so many float64 numbers.

    d^2 for a covariance: 10 blocks up to d = 2590, 2 up to 5792, and beyond that 1, which has no standard error.
    """
    return max(1, min(BLOCKS, MAX_BYTES // (8 * max(numbers, 1))))


class Jackknife(Generic[P]):
    """Parts of a stream of points in blocks, each of which a statistic can be computed without.

    Rows are dealt to the blocks in rounds, by slices: not in one run to each, which would put a class of a sorted file
    into one block; nor one by one, as neighbours that depend on each other, such as tokens of a sentence, belong into
    one block. In each round every block takes one slice, in a random order, so that nothing that recurs in the file
    falls to one block; every second round in the reverse of the order before, against drifts. Blocks may be unequal.

    So the unit taken as independent is the slice, and the order of the rows matters. Beside shuffled copies of the same
    4,000 or 40,000 rows, the standard error of a mean was 0.8 to 1.3 times as great for two overlapping classes, sorted
    or alternating in runs of any length; 0.4 to 1.4 times for classes four standard deviations apart, since each block
    has nearly the same share of either; and for rows sorted by value itself 1.1 times (4,000) and 3 times (40,000).
    Shuffle the rows if their order means nothing.

    Args:
        empty: makes a part without points, such as ``lambda: Moments(d)``.
        n: the number of rows to come, which sets the length of the slices: about n / (8 blocks), from 1 to 4096.
        blocks: their number; see ``blocks_within``.

    Raises:
        ValueError: there is not at least 1 block.

    """

    def __init__(self, empty: Callable[[], P], n: int, blocks: int = BLOCKS) -> None:
        if blocks < 1:
            raise ValueError(f"Expected at least 1 block, got {blocks}: 1 only sums, 2 and more have standard errors.")
        self._empty = empty
        self._parts = [empty() for _ in range(blocks)]
        self._slice = min(max(n // (ROUNDS * blocks), 1), CHUNK_ROWS)
        self._seen = 0

    def update(self, x: Tensor) -> None:
        """Deal points [n, d]; the blocks are the same however the stream is cut into chunks.

        Raises:
            ValueError: the part refuses ``x``.

        """
        start = 0
        while start < len(x):
            turn, within = divmod(self._seen, self._slice)
            end = min(start + self._slice - within, len(x))
            self._parts[self._block(turn)].update(x[start:end])
            self._seen += end - start
            start = end

    def total(self) -> P:
        """Return the part of all points, to be read: where there is one block, it is that block's."""
        return self._parts[0] if len(self._parts) == 1 else self._merged(self._parts)

    def standard_error(self, statistic: Callable[[P], Score]) -> float | None:
        """Return the standard error of a statistic, in its units; None where ``scores`` has none."""
        return self.scores(lambda part: {"statistic": statistic(part)})["statistic"].se

    def scores(self, statistics: Callable[[P], Mapping[str, Score]]) -> dict[str, Score]:
        """Return the statistics of all points, each with its standard error.

        The delete-m jackknife for blocks of unequal sizes (Busing, Meijer & van der Leeden 1999). For the mean of equal
        blocks it is the standard deviation of the blocks' means over sqrt(B). It assumes a statistic that changes
        smoothly with the points. A score has no standard error where there are fewer than ``FEWEST_FOR_SE`` points,
        which is two for each of ``BLOCKS``, or fewer than two blocks; nor where it is undefined for all points or
        without one of the blocks.
        """
        whole = statistics(self.total())
        parts = [part for part in self._parts if part.n > 0]
        n = sum(part.n for part in parts)
        if n < FEWEST_FOR_SE or len(parts) < 2:
            return dict(whole)
        shares = [part.n / n for part in parts]
        left = [statistics(rest) for rest in self._left_out(parts, self._empty())]
        return {
            name: replace(score, se=_standard_error(score, [rest[name] for rest in left], shares))
            for name, score in whole.items()
        }

    def _block(self, turn: int) -> int:
        """Return which block takes a slice."""
        round_, place = divmod(turn, len(self._parts))
        order = np.random.default_rng((SEED, round_ // 2)).permutation(len(self._parts))
        return int(order[-1 - place if round_ % 2 else place])

    def _left_out(self, parts: Sequence[P], others: P) -> Iterator[P]:
        """Yield the merge of all parts but one, ``others`` with them, for each of the parts in their order.

        By halves: B log B merges, and log B parts more in memory than there are blocks.
        """
        if len(parts) == 1:
            yield others
            return
        half = len(parts) // 2
        yield from self._left_out(parts[:half], self._merged([others, *parts[half:]]))
        yield from self._left_out(parts[half:], self._merged([others, *parts[:half]]))

    def _merged(self, parts: Sequence[P]) -> P:
        merged = self._empty()
        for part in parts:
            merged.merge(part)
        return merged


def _standard_error(whole: Score, left_out: Sequence[Score], shares: Sequence[float]) -> float | None:
    """Return the standard error from the values without each block and the blocks' shares of the points."""
    values = [score.value for score in left_out if score.value is not None]
    if whole.value is None or len(values) < len(left_out):
        return None
    pseudo = [(whole.value - (1 - m) * value) / m for m, value in zip(shares, values, strict=True)]
    centre = sum(m * value for m, value in zip(shares, pseudo, strict=True))
    squares = (m / (1 - m) * (value - centre) ** 2 for m, value in zip(shares, pseudo, strict=True))
    return float((sum(squares) / len(values)) ** 0.5)
