"""Rows drawn from a stream of unknown length, each with the same chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from isotropy.rows import Points, kept_rows


def draw(points: Points, size: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return at most ``size`` of the finite rows, in random order, and their places among all, int64."""
    sample = Sample(min(points.n, size), points.d, points.dtype, seed)
    for kept, places, _ in kept_rows(points):
        sample.update(kept.numpy(), places)
    return sample.drawn()


class Sample:
    """At most so many of all rows, without replacement, in random order: its head is a sample too.

    Vitter's (1985) algorithm R: row number i takes the place of another with the chance of size / i. Which rows are
    drawn depends on the seed, not on how the stream is cut into chunks.

    Args:
        size: places.
        d: number of dimensions.
        dtype: of the rows.
        seed: of all that is drawn.

    """

    def __init__(self, size: int, d: int, dtype: np.dtype[Any], seed: int) -> None:
        self._generator = np.random.default_rng(seed)
        self._first_places = self._generator.permutation(size)
        self._points = np.empty((size, d), dtype)
        self._rows = np.full(size, -1)
        self._seen = 0

    def update(self, points: NDArray[Any], rows: NDArray[np.int64]) -> None:
        """Offer points [n, d], and the number by which each is to be found again, [n]."""
        size = len(self._rows)
        before = np.arange(self._seen, self._seen + len(points))
        places = (self._generator.random(len(points)) * (before + 1)).astype(np.int64)
        free = before < size
        places[free] = self._first_places[before[free]]
        taken = (places < size).nonzero()[0]
        # Of several for one place the last one stays.
        _, last = np.unique(places[taken][::-1], return_index=True)
        taken = taken[::-1][last]
        self._points[places[taken]] = points[taken]
        self._rows[places[taken]] = rows[taken]
        self._seen += len(points)

    def rescale(self, factor: float) -> None:
        """Multiply the points so far by a factor."""
        self._points[self._rows >= 0] *= factor

    def drawn(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the points [m, d] and their numbers, int64 [m]; all, where there were not more than places."""
        there = self._rows >= 0
        points, rows = (self._points, self._rows) if there.all() else (self._points[there], self._rows[there])
        return torch.from_numpy(points), torch.from_numpy(rows)
