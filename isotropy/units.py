"""The power of two in units of which extreme points are measured, so that no fourth power leaves float64.

To divide by a power of two rounds nothing, so whatever does not depend on scale keeps its last digit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from isotropy.rows import Points

ORDINARY = 2.0**150
"""Points of sizes up to it and down to its inverse, all of float32 among them, are measured as they are."""


def unit_for(x: Tensor, unit: float) -> float:
    """Return the unit of points [n, d] and of those before them, whose unit is given; 0 while all are zero.

    Smaller ones need no other: what is so much smaller than another point adds nothing to any sum.
    """
    largest = max(-float(x.min()), float(x.max())) if x.numel() else 0.0
    if largest <= unit * ORDINARY:
        return unit
    return 1.0 if 1 / ORDINARY <= largest <= ORDINARY else math.ldexp(0.5, math.frexp(largest)[1])


@dataclass(frozen=True)
class InUnits:
    """Points, each over one power of two."""

    points: Points
    unit: float

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.points.n

    @property
    def d(self) -> int:
        """Number of dimensions."""
        return self.points.d

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the points."""
        return self.points.dtype

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield the rows in order."""
        return (chunk / self.unit for chunk in self.points.chunks())

    def labels(self) -> Iterable[str] | None:
        """Those of the points."""
        return self.points.labels()

    def groups(self) -> Iterable[str] | None:
        """Those of the points."""
        return self.points.groups()
