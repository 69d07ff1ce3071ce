"""A mean over a few seeds, and the error bar beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import fsum, hypot, sqrt
from statistics import NormalDist, fmean

# Student's t at 97.5 %, for 1 to 30 degrees of freedom.
T_QUANTILES = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
    2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip


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
    return deviation / sqrt(n) * (t_quantile(n - 1) if error is Error.CI95 else 1)


def _deviation(values: Sequence[float]) -> float:
    """The sample standard deviation, many times as fast as that of ``statistics``, which works in fractions.

    Seen from the first value, so that it is nothing but 0 where all are alike; ``hypot`` loses no square of the very
    great or very small.
    """
    seen = [value - values[0] for value in values]
    mean = fsum(seen) / len(seen)
    return hypot(*(one - mean for one in seen)) / sqrt(len(seen) - 1)


def t_quantile(degrees: int) -> float:
    """Student's t at 97.5 %, to four digits.

    Beyond the table, the first terms of its expansion about the normal quantile (Abramowitz & Stegun 26.7.5).
    """
    if degrees <= len(T_QUANTILES):
        return T_QUANTILES[degrees - 1]
    z = NormalDist().inv_cdf(0.975)
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
