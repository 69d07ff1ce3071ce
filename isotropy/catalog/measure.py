"""What the catalogue says of a measure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Group = Literal["spread", "directions", "neighbours", "topology", "labels"]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A measure, described in plain text. X is the cloud [n, d], S its covariance, λ the eigenvalues of S."""

    slug: str
    group: Group
    name: str
    symbol: str
    value: str = ""
    """Which number it is in a report, where a measure is more than one or has settings; else empty."""
    whole: bool = False
    """Whether that number counts something."""
    range: str
    """Of that number."""
    bounds: Callable[[int, int], tuple[float, float]] | None = None
    """The ends of ``range`` for n points, at least 1 dimension: for programs; None where an end is infinite."""
    formula: str
    meaning: str
    pitfall: str
    citation: str
    higher_means: Literal["more isotropic", "less isotropic", "neither"]

    def ends(self, n: int, d: int) -> tuple[float, float] | None:
        """Return the ends of ``range`` for n points in d dimensions; None where one is infinite, or both are one."""
        if self.bounds is None:
            return None
        low, high = self.bounds(n, d)
        return (low, high) if low < high else None


def between(low: float, high: float) -> Callable[[int, int], tuple[float, float]]:
    """Return the bounds of a measure whose range is the same for all clouds."""
    return lambda n, d: (low, high)


def up_to_rank(n: int, d: int) -> tuple[float, float]:
    """Return 1 and the number of directions that n centred points can have."""
    return 1, min(n - 1, d)
