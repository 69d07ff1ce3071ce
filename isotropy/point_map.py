"""Where every row lies in the plane of a projection, to be kept and drawn one by one."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isotropy.rows import Sample

SAFE = (1e-30, 1e30)
"""Magnitudes that float32 holds with room for the arithmetic of whoever draws them."""


class MappedRows(NamedTuple):
    """Rows of a map in the order of the file."""

    xy: NDArray[np.float32]
    """[m, 2], in units of ``unit``."""
    norms: NDArray[np.float32]
    """Euclidean norm of each row, in the same units."""
    rows: NDArray[np.int64]
    """Places among all rows, ascending."""
    unit: float
    """A power of two, 1 unless float32 would not hold the coordinates."""


class PointMap:
    """Collects the rows of a map while a projection reads them: all of them, or a sample.

    Args:
        size: rows that are kept; all where there are not more.
        seed: of the rows that are kept.

    """

    def __init__(self, size: int, seed: int = 0) -> None:
        self._sample = Sample(size, 3, np.dtype(np.float64), seed)

    def update(self, at: NDArray[np.float64], norms: NDArray[Any], places: NDArray[np.int64]) -> None:
        """Add rows by their coordinates [m, 2], norms [m] and places among all rows [m]."""
        self._sample.update(np.column_stack([at, norms]), places)

    def found(self, unit: float = 1.0) -> MappedRows:
        """Return the rows, of which one unit of what was added is ``unit`` units of the file."""
        points, places = (one.numpy() for one in self._sample.drawn())
        order = places.argsort()
        at = points[order]
        own = _unit_of(at, unit)
        scaled = (at * (unit / own)).astype(np.float32)
        return MappedRows(np.ascontiguousarray(scaled[:, :2]), np.ascontiguousarray(scaled[:, 2]), places[order], own)


def _unit_of(at: NDArray[np.float64], unit: float) -> float:
    """Return 1, or the power of two in which coordinates times ``unit`` are at most 1."""
    greatest = float(np.abs(at).max(initial=0.0))
    if greatest == 0 or SAFE[0] <= greatest * unit <= SAFE[1]:
        return 1.0
    return float(2.0 ** np.frexp(greatest)[1]) * unit
