"""A mean over a few seeds, and the error bar beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import fsum, hypot, sqrt
from statistics import fmean

from app.statistics.student import quantile

BLOCK_KURTOSIS = 1.5
"""How heavy-tailed rows may be for an interval from blocks to cover 95%: independent t5 coordinates, by simulation."""


class Error(StrEnum):
    """What an error bar is, in each direction: of the mean, or of the values themselves."""

    CI95 = "ci95"
    SE = "se"
    STD = "std"

    @property
    def name_in_full(self) -> str:
        """What it is called where it is chosen."""
        return {self.CI95: "95 % confidence interval", self.SE: "standard error", self.STD: "standard deviation"}[self]

    @property
    def words(self) -> str:
        """What the bars are, in a sentence: bars are ..."""
        return {
            self.CI95: "95 % confidence intervals of the mean by Student’s t",
            self.SE: "standard errors of the mean",
            self.STD: "standard deviations of single runs",
        }[self]

    @property
    def column(self) -> str:
        """What a table calls it, after the name of what was measured."""
        return {self.CI95: "ci95_half_width", self.SE: "standard_error", self.STD: "std"}[self]


@dataclass(frozen=True)
class Estimate:
    """A mean over ``n`` values and the half-width of its error bar; two values or more have one."""

    mean: float
    half_width: float | None
    n: int

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest that is drawn of it."""
        return self.mean - (self.half_width or 0), self.mean + (self.half_width or 0)


def estimate(values: Sequence[float], error: Error = Error.CI95) -> Estimate:
    """The mean of at least one value, with the error bar that was asked for."""
    n = len(values)
    return Estimate(fmean(values), _half_width(values, error) if n > 1 else None, n)


def _half_width(values: Sequence[float], error: Error) -> float:
    n, deviation = len(values), _deviation(values)
    if error is Error.STD:
        return deviation
    return deviation / sqrt(n) * (quantile(0.05, n - 1) if error is Error.CI95 else 1)


def _deviation(values: Sequence[float]) -> float:
    """The sample standard deviation, many times as fast as that of ``statistics``, which works in fractions.

    Seen from the first value, so that it is nothing but 0 where all are alike; ``hypot`` loses no square of the very
    great or very small.
    """
    seen = [value - values[0] for value in values]
    mean = fsum(seen) / len(seen)
    return hypot(*(one - mean for one in seen)) / sqrt(len(seen) - 1)


def block_degrees(blocks: int) -> float:
    """Return the degrees of freedom of a standard error from blocks of rows.

    They are what gives the variance of such an error: 2 / degrees = 2 / (B - 1) + k / B of B blocks, where k is the
    excess kurtosis of what blocks add. It is 0 for normal rows, where this is B - 1; heavy tails leave some.
    """
    return 2 / (2 / (blocks - 1) + BLOCK_KURTOSIS / blocks)
