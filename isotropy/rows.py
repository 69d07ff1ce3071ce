"""Points as they come: in memory or from a file, chunk by chunk, with their labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.spectrum import CHUNK_ROWS


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

    def groups(self) -> Iterable[str] | None:
        """Return the group of each row, equal for rows that depend on each other, empty where a row stands alone.

        None where no groups are known: then exact duplicates are one.
        """
        ...


@dataclass(frozen=True)
class Rows:
    """Points that lie in memory."""

    x: NDArray[Any]
    """[n, d] of real numbers; of other types than float32 and float64 a chunk is converted at a time."""
    of_rows: Sequence[str] | None = None
    """The labels, n of them."""
    in_groups: Sequence[str] | None = None
    """The groups, n of them."""

    def __post_init__(self) -> None:
        if not isinstance(self.x, np.ndarray) or self.x.ndim != 2 or self.dtype not in (np.float32, np.float64):
            kind = f"{list(self.x.shape)} of {self.x.dtype}" if hasattr(self.x, "dtype") else type(self.x).__name__
            raise ValueError(
                f"Expected points as a numpy array [n, d] of numbers, got {kind}: give one point a row, of a torch "
                "tensor x.numpy()."
            )
        for name, values in {"label": self.of_rows, "group": self.in_groups}.items():
            if values is not None and len(values) != self.n:
                raise ValueError(f"Expected a {name} for each of {self.n} rows, got {len(values)}: empty where none.")

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
        """float32 where it holds every number of the array's type, else float64."""
        return np.promote_types(self.x.dtype, np.float32)

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield the rows in order."""
        return (
            self.x[start : start + CHUNK_ROWS].astype(self.dtype, copy=False) for start in range(0, self.n, CHUNK_ROWS)
        )

    def labels(self) -> Sequence[str] | None:
        """The labels that were given."""
        return self.of_rows

    def groups(self) -> Sequence[str] | None:
        """The groups that were given."""
        return self.in_groups


@dataclass(frozen=True)
class OfDimensions:
    """Points with some of their dimensions."""

    points: Points
    dimensions: NDArray[np.int64]

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.points.n

    @property
    def d(self) -> int:
        """Number of dimensions that are left."""
        return len(self.dimensions)

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the points."""
        return self.points.dtype

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield the rows in order; a row that is not finite in another dimension is NaN here too."""
        for chunk in self.points.chunks():
            rows = chunk[:, self.dimensions]
            rows[~np.isfinite(chunk).all(1)] = np.nan
            yield rows

    def labels(self) -> Iterable[str] | None:
        """Those of the points."""
        return self.points.labels()

    def groups(self) -> Iterable[str] | None:
        """Those of the points."""
        return self.points.groups()


class Kept(NamedTuple):
    """The rows of a chunk that have neither NaN nor infinity."""

    points: Tensor
    """[m, d]."""
    places: NDArray[np.int64]
    """[m], among all rows."""
    read: int
    """Rows of the chunk, those left out too."""


def kept_rows(points: Points) -> Iterator[Kept]:
    """Yield the finite rows in order, chunk by chunk, and where they stand."""
    read = 0
    for chunk, finite in finite_rows(points):
        kept = chunk if finite.all() else chunk[finite]
        yield Kept(kept, read + finite.nonzero().squeeze(1).numpy(), len(chunk))
        read += len(chunk)


def finite_rows(points: Points) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield all rows in order with a flag for each that has neither NaN nor infinity."""
    for chunk in points.chunks():
        # A copy where torch can take no view: of rows in reverse, say, or of what is for reading only.
        rows = torch.from_numpy(np.require(chunk, requirements=["C", "W"]))
        yield rows, rows.isfinite().all(dim=1)
