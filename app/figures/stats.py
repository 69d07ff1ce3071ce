"""Mean and its confidence interval over a few seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, fmean, stdev

# Student's t at 97.5 %, for 1 to 30 degrees of freedom.
T_QUANTILES = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
    2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip


@dataclass(frozen=True)
class Estimate:
    """A mean over ``n`` values and the half-width of its 95 % confidence interval, if n allows one."""

    mean: float
    half_width: float | None
    n: int


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of at least one value, with its 95 % confidence interval by Student's t."""
    n = len(values)
    half_width = t_quantile(n - 1) * stdev(values) / sqrt(n) if n > 1 else None
    return Estimate(fmean(values), half_width, n)


def t_quantile(degrees: int) -> float:
    """Student's t at 97.5 %, to four digits.

    Beyond the table, the first terms of its expansion about the normal quantile (Abramowitz & Stegun 26.7.5).
    """
    if degrees <= len(T_QUANTILES):
        return T_QUANTILES[degrees - 1]
    z = NormalDist().inv_cdf(0.975)
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
