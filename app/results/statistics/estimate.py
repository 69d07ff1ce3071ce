"""Means over seeds with error bars. Repeated runs of a seed count once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from math import fsum, hypot, sqrt
from operator import itemgetter
from statistics import fmean

from app.core.evidence import t_quantile


class ErrorBar(StrEnum):
    """The half-length of an error bar: an error of the mean, or the deviation of single values."""

    CI95 = "ci95"
    SE = "se"
    STD = "std"

    @property
    def name_in_full(self) -> str:
        return {self.CI95: "95% confidence interval", self.SE: "standard error", self.STD: "standard deviation"}[self]

    @property
    def description(self) -> str:
        """Return what error bars show, to complete a sentence: bars are ..."""
        return {
            self.CI95: "95% confidence intervals of the mean by Student’s t",
            self.SE: "standard errors of the mean",
            self.STD: "standard deviations of single runs",
        }[self]

    @property
    def column(self) -> str:
        """Return the suffix of a table column, placed after the name of the quantity."""
        return {self.CI95: "ci95_half_width", self.SE: "standard_error", self.STD: "std"}[self]


@dataclass(frozen=True)
class Estimate:
    """A mean over ``n`` values and the half-width of its error bar; two values or more have one."""

    mean: float
    half_width: float | None
    n: int

    @property
    def ends(self) -> tuple[float, float]:
        """Return the lower and the upper end of the error bar."""
        return self.mean - (self.half_width or 0), self.mean + (self.half_width or 0)


def estimate(values: Sequence[float], error: ErrorBar = ErrorBar.CI95) -> Estimate:
    """Return the mean of at least one value with the requested error bar."""
    n = len(values)
    return Estimate(fmean(values), _half_width(values, error) if n > 1 else None, n)


def _half_width(values: Sequence[float], error: ErrorBar) -> float:
    n, deviation = len(values), _deviation(values)
    if error is ErrorBar.STD:
        return deviation
    standard_error = deviation / sqrt(n)
    return standard_error * t_quantile(0.05, n - 1) if error is ErrorBar.CI95 else standard_error


def _deviation(values: Sequence[float]) -> float:
    """Return the sample standard deviation, much faster than ``statistics``, which works in fractions.

    Subtracting the first value makes the deviation of equal values exactly 0. ``hypot`` neither overflows nor
    underflows.
    """
    shifted = [value - values[0] for value in values]
    mean = fsum(shifted) / len(shifted)
    return hypot(*(deviation - mean for deviation in shifted)) / sqrt(len(shifted) - 1)


def average_by_seed(seed_values: Iterable[tuple[int, float]]) -> dict[int, float]:
    """Return the mean value of each seed, so that each counts once. ``seed_values`` are (seed, value) pairs.

    Seeds are in ascending order.
    """
    sorted_values = sorted(seed_values, key=itemgetter(0))
    value_by_seed = dict(sorted_values)
    if len(value_by_seed) == len(sorted_values):  # the usual case: one run per seed
        return value_by_seed
    values_by_seed: dict[int, list[float]] = {}
    for seed, value in sorted_values:
        values_by_seed.setdefault(seed, []).append(value)
    return {seed: fmean(values) for seed, values in values_by_seed.items()}


def estimate_over_seeds(
    seed_values: Iterable[tuple[int, float | None]], error: ErrorBar = ErrorBar.CI95
) -> Estimate | None:
    """Return the mean of the defined values, counting each seed once; None without any."""
    values = average_by_seed((seed, value) for seed, value in seed_values if value is not None)
    return estimate([*values.values()], error) if values else None


Row = tuple[int, Sequence[float | None]]
"""The seed of a run, and its values."""


def group_by_position(rows: Iterable[Row]) -> list[list[float]]:
    """Return, for each position up to the end of the longest row, the values there, averaged over runs of a seed."""
    row_list = list(rows)
    return [
        [
            *average_by_seed(
                (seed, value) for (seed, _), value in zip(row_list, values, strict=True) if value is not None
            ).values()
        ]
        for values in zip_longest(*(values for _, values in row_list))
    ]


LAST_PART = 0.3
"""Fraction of steps in the tail, as in Kudriashov, Karpik & Klyshinsky (2025), "Shrink the longest"."""


def tail_mean(values: Iterable[tuple[int, float | None]], last_step: int) -> float | None:
    """Return the mean of the defined (step, value) pairs in the last 30% of a run's steps; None if there are none."""
    late_values = [value for step, value in values if step >= (1 - LAST_PART) * last_step and value is not None]
    return fmean(late_values) if late_values else None
