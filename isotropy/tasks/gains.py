"""Gains of variants over the baseline with simultaneous intervals, by which a variant is chosen."""

from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from isotropy.tasks.bootstrap import LEVEL, Numbers, Statistic, leave_out, resample
from isotropy.tasks.parts import Codes

DRAWS = 20_000  # Draws of the largest |t|; the critical value is then known to about 1%


class Gain(NamedTuple):
    """The difference of a variant to the baseline, with an interval that holds for all variants at once."""

    difference: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        return self.low > 0


def gains(values: Numbers, groups: Codes, statistic: Statistic, seed: int) -> list[Gain]:
    """Return the gain of each row of values [V, m] of m units; the first row is the baseline.

    In 95% of tasks all intervals hold at once. Standard errors of the differences are the jackknife's; the critical
    value is that of the largest |t| among variants as correlated as these (Dunnett 1955). A variant whose values equal
    those of the baseline gains exactly 0.
    """
    _, codes = np.unique(groups, return_inverse=True)
    left_out = leave_out(values, codes, statistic, seed)
    observed = statistic(values, np.ones((1, values.shape[1])))[0]
    difference, differences_left_out = observed - observed[0], left_out - left_out[:, :1]
    influence = differences_left_out.mean(0) - differences_left_out
    blocks = len(influence)
    error = np.sqrt((blocks - 1) / blocks * np.square(influence).sum(0))
    error[(values == values[0]).all(1)] = 0
    return _gains_within(difference, _critical_value(influence[:, error > 0], seed) * error)


def resampled_gains(values: Numbers, groups: Codes, statistic: Statistic, seed: int) -> list[Gain]:
    """Return gains as ``gains`` does, for statistics that depend on a quantile, for which the jackknife fails.

    Standard errors and the critical value of the largest |t| come from resampled groups.
    """
    _, codes = np.unique(groups, return_inverse=True)
    observed = statistic(values, np.ones((1, values.shape[1])))[0]
    difference, scores = observed - observed[0], resample(values, codes, statistic, seed)
    deviations = scores - scores[:, :1] - difference
    error = deviations.std(0)
    error[(values == values[0]).all(1)] = 0
    largest = np.abs(deviations[:, error > 0] / error[error > 0]).max(1, initial=0)
    return _gains_within(difference, float(np.quantile(largest, LEVEL)) * error)


def _gains_within(difference: Numbers, margin: Numbers) -> list[Gain]:
    return [Gain(*map(float, ends)) for ends in zip(difference, difference - margin, difference + margin, strict=True)]


def _critical_value(influence: Numbers, seed: int) -> float:
    """Return the 95% quantile of the largest |t| of V differences by the influence [b, V] of each block of groups."""
    blocks, count = influence.shape
    if not count:
        return 0.0
    generator = np.random.default_rng(seed)
    _, sizes, axes = np.linalg.svd(influence / np.linalg.norm(influence, axis=0), full_matrices=False)
    normal = generator.standard_normal((DRAWS, len(sizes))) @ (sizes[:, None] * axes)
    largest = np.abs(normal).max(1) / np.sqrt(chi2.rvs(blocks - 1, size=DRAWS, random_state=generator) / (blocks - 1))
    return float(np.quantile(largest, LEVEL))
