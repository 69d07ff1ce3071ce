"""What the catalogue says of a measure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Error = Literal["none", "population", "sample"]
Compared = Literal["never", "at equal n", "at any n"]
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
    error: Error = "none"
    """What ± is: of an estimate of the population's value, so that an interval holds that value; or how far the value
    of another sample of as many rows would lie, where the measure is biased; or there is none."""
    bias: str = ""
    """How the number of rows moves the value; empty where it does not, or where that is not known."""
    corrected: str = ""
    """Slug of the bias-corrected form that stands for it wherever the rows are a sample."""
    compared: Compared = "never"
    """Between which embeddings a difference has an interval."""

    @property
    def error_told(self) -> str:
        """What ± is, in a sentence."""
        return ERRORS[self.error] if not self.corrected else OF_THESE_ROWS

    def ends(self, n: int, d: int) -> tuple[float, float] | None:
        """Return the ends of ``range`` for n points in d dimensions; None where one is infinite, or both are one."""
        if self.bounds is None:
            return None
        low, high = self.bounds(n, d)
        return (low, high) if low < high else None


ERRORS: dict[Error, str] = {
    "none": "The value has no ±.",
    "population": "± is the standard error of an estimate of the population's value.",
    "sample": "± is how much the value varies between samples of this size. It does not cover the bias.",
}
OF_THESE_ROWS = "The value describes these rows only. It has no ±: read the bias-corrected form for the population."


def between(low: float, high: float) -> Callable[[int, int], tuple[float, float]]:
    """Return the bounds of a measure whose range is the same for all clouds."""
    return lambda n, d: (low, high)


def up_to_rank(n: int, d: int) -> tuple[float, float]:
    """Return 1 and the number of directions that n centred points can have."""
    return 1, min(n - 1, d)
