"""Points as they come: in memory or from a file, chunk by chunk, with their labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.spectrum import CHUNK_ROWS

Progress = Callable[[int], object]
"""Told the number of rows that were just read."""


class Points(Protocol):
    """Rows that can be read again and again."""

    @property
    def n(self) -> int:
        """Number of rows."""
        ...

    @property
    def d(self) -> int:
        """Number of dimensions."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        ...

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield all rows in order, in arrays [any, d] of this type."""
        ...

    def labels(self) -> Iterable[str] | None:
        """Return the label of each row, empty where it has none; None if no row has."""
        ...


@dataclass(frozen=True)
class Rows:
    """Points that lie in memory."""

    x: NDArray[Any]
    """[n, d], float32 or float64."""
    of_rows: Sequence[str] | None = None
    """The labels, n of them."""

    def __post_init__(self) -> None:
        if not isinstance(self.x, np.ndarray) or self.x.ndim != 2 or self.x.dtype not in (np.float32, np.float64):
            kind = f"{list(self.x.shape)} of {self.x.dtype}" if hasattr(self.x, "dtype") else type(self.x).__name__
            raise ValueError(
                f"Expected points as a numpy array [n, d] of float32 or float64, got {kind}: give one point a row, and "
                "convert by numpy.asarray(x, dtype=numpy.float32)."
            )
        if self.of_rows is not None and len(self.of_rows) != self.n:
            raise ValueError(f"Expected a label for each of {self.n} rows, got {len(self.of_rows)}: empty where none.")

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.x)

    @property
    def d(self) -> int:
        """Number of dimensions."""
        return int(self.x.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the array."""
        return self.x.dtype

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield the rows in order."""
        for start in range(0, self.n, CHUNK_ROWS):
            # A copy where torch could not take a view: of rows in reverse, say, or of a file opened for reading only.
            yield np.require(self.x[start : start + CHUNK_ROWS], requirements=["C", "W"])

    def labels(self) -> Sequence[str] | None:
        """The labels that were given."""
        return self.of_rows


def finite_rows(points: Points, progress: Progress) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield all rows in order with a flag for each that has neither NaN nor infinity."""
    for chunk in points.chunks():
        rows = torch.from_numpy(chunk)
        yield rows, rows.isfinite().all(dim=1)
        progress(len(rows))


def unheard(_: int) -> None:
    """Take no note of progress."""
