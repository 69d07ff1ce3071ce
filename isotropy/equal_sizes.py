"""Estimates from nearest neighbors for standard numbers of rows, with errors from blocks of the rows.

Points share distances with their neighbors, so that the spread of single points does not tell the error of their mean.
Here each block of rows is searched alone. The blocks' estimates are independent; the spread of their logarithms over
sqrt(B) is the relative error that rows of all blocks would have (batch means). The estimates depend on how many points
there are, so that two clouds are compared with as many rows of either: at the greatest of ``SIZES`` that both have.
"""

from collections.abc import Callable
from functools import cached_property
from math import log
from statistics import fmean

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.neighbours import Neighbours, nearest_neighbours
from isotropy.score import Score

SIZES = (1000, 2000, 5000)
"""Numbers of distinct rows for which estimates are stored, to compare clouds of unlike numbers of rows."""

FEWEST = 1000
"""Distinct rows below which there is no error: of smaller blocks the estimates are too rough."""


class Neighbourhoods:
    """Nearest neighbors among distinct points in random order, among the first of them, and among each block.

    Args:
        points: [n, d].
        blocks: [n], the block of each.
        k: neighbors of each.
        whole: those among all, where they were searched already.
        search: finds the neighbors.

    """

    def __init__(
        self,
        points: Tensor,
        blocks: NDArray[np.int64],
        k: int,
        whole: Neighbours | None = None,
        search: Callable[[Tensor, int], Neighbours] = nearest_neighbours,
    ) -> None:
        self._points = points
        self._blocks = torch.from_numpy(blocks)
        self._k = k
        self._search = search
        self._whole = whole
        self._found: dict[int, list[Neighbours]] = {}

    @cached_property
    def whole(self) -> Neighbours:
        """Among all."""
        return self._whole or self._search(self._points, self._k)

    def score(self, measure: Callable[[Neighbours], Score]) -> Score:
        """Return a measure of all points with its standard error."""
        return self._with_error(measure, len(self._points), measure(self.whole))

    def at_sizes(self, measure: Callable[[Neighbours], Score]) -> dict[int, Score]:
        """Return a measure of the first 1,000, 2,000, ... points, each with its standard error."""
        sizes = [size for size in SIZES if size <= len(self._points)]
        return {size: self._with_error(measure, size, measure(self._among(size)[0])) for size in sizes}

    def _with_error(self, measure: Callable[[Neighbours], Score], size: int, whole: Score) -> Score:
        values = [] if size < FEWEST else [measure(block).value for block in self._among(size)[1:]]
        logarithms = [log(value) for value in values if value]
        if whole.value is None or len(logarithms) < max(len(values), 2):
            return whole.with_error(())
        centre, B = fmean(logarithms), len(logarithms)
        return whole.with_error([whole.value * (one - centre) / (B * (B - 1)) ** 0.5 for one in logarithms])

    def _among(self, size: int) -> list[Neighbours]:
        """Return the neighbors among the first points, then among those of each block of them."""
        if size not in self._found:
            points, blocks = self._points[:size], self._blocks[:size]
            whole = self.whole if size == len(self._points) else self._search(points, self._k)
            own = [self._search(points[blocks == block], self._k) for block in range(int(blocks.max()) + 1)]
            self._found[size] = [whole, *own]
        return self._found[size]
