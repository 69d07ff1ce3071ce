"""Intervals of scores by a bootstrap that resamples groups, the same groups for all variants."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtrit

from isotropy.tasks.parts import Codes

RESAMPLES = 2000
LEVEL = 0.95
MAX_BLOCKS = 1000  # Groups that are left out one at a time; more are left out in blocks, drawn at random
UNSEEN_CHANGES = 2  # Blocks added to the jackknife for changes that no group shows, each like the block that moves most
RESAMPLED_AT_ONCE = 2**22  # Weights that are held at once: 32 MiB

Numbers = NDArray[np.float64]
# Returns the scores [r, V] of V variants from their values [V, m] on m units, under r weightings [r, m] of the units.
Statistic = Callable[[Numbers, Numbers], Numbers]


class Interval(NamedTuple):
    """A score on the report part and its difference to the baseline, with 95% intervals."""

    value: float
    low: float
    high: float
    difference: float
    difference_low: float
    difference_high: float


def mean(values: Numbers, weights: Numbers) -> Numbers:
    means: Numbers = weights @ values.T / weights.sum(1, keepdims=True)
    return means


def spearman_with(scores: Numbers) -> Statistic:
    """Return the rank correlation of values [V, m] with scores [m] as a statistic; 0 where either is constant."""
    truth = _Ranks(scores)

    def correlations(values: Numbers, weights: Numbers) -> Numbers:
        total = weights.sum(1, keepdims=True)

        def center(ranks: Numbers) -> Numbers:
            centered: Numbers = ranks - (weights * ranks).sum(1, keepdims=True) / total
            return centered

        y, columns = center(truth.weighted(weights)), []
        y_squares = (weights * y**2).sum(1)
        for row in values:
            x = center(_Ranks(row).weighted(weights))
            product = (weights * x * y).sum(1)
            size = np.sqrt((weights * x**2).sum(1) * y_squares)
            columns.append(np.divide(product, size, out=np.zeros_like(product), where=size > 0))
        return np.stack(columns, axis=1)

    return correlations


def intervals(values: Numbers, groups: Codes, statistic: Statistic, seed: int) -> list[Interval]:
    """Return the interval of each row of values [V, m] of m units in groups [m]; the first row is the baseline.

    Bootstrap percentiles corrected for bias and skewness (BCa, Efron 1987), because scores near 1 have a long tail, and
    expanded to the width of Student's t (Hesterberg 2015) for few groups. Intervals of differences are at least as wide
    as Student's t.
    """
    _, codes = np.unique(groups, return_inverse=True)
    n_groups = int(codes.max()) + 1
    scores = resample(values, codes, statistic, seed)
    observed = statistic(values, np.ones((1, len(codes))))[0]
    left_out = leave_out(values, codes, statistic, seed)
    value_bounds = _bca_bounds(scores, observed, left_out, n_groups)
    difference, differences_left_out = observed - observed[0], left_out - left_out[:, :1]
    difference_bounds = _bca_bounds(scores - scores[:, :1], difference, differences_left_out, n_groups)
    # Widen to at least Student's t with the jackknife's standard error: where 10% of 40 queries change at random,
    # 15% of BCa intervals exclude 0, and 2% of widened ones.
    m = len(differences_left_out)
    squares = np.square(differences_left_out - differences_left_out.mean(0))
    error = np.sqrt((m - 1) / m * (squares.sum(0) + UNSEEN_CHANGES * squares.max(0)))
    t_offset = stdtrit(m - 1, (1 - LEVEL) / 2) * error
    low, high = difference_bounds
    difference_bounds = np.stack([np.minimum(low, difference + t_offset), np.maximum(high, difference - t_offset)])
    if statistic is mean:  # of shares between 0 and 1
        value_bounds = _widen(value_bounds, values, n_groups, lowest=0)
        difference_bounds[:, 1:] = _widen(difference_bounds, values - values[0], n_groups, lowest=-1)[:, 1:]
    return [
        Interval(*map(float, (observed[i], *value_bounds[:, i], observed[i] - observed[0], *difference_bounds[:, i])))
        for i in range(len(values))
    ]


def resample(values: Numbers, codes: Codes, statistic: Statistic, seed: int) -> Numbers:
    """Return the scores [r, V] of values [V, m] in resamples of groups; ``codes`` [m] number groups from 0."""
    n_groups = int(codes.max()) + 1
    generator = np.random.default_rng(seed)
    at_once = max(1, RESAMPLED_AT_ONCE // max(n_groups, len(codes)))
    resampled = []
    for start in range(0, RESAMPLES, at_once):
        drawn_groups = generator.integers(0, n_groups, (min(at_once, RESAMPLES - start), n_groups))
        weights = np.stack([np.bincount(drawn, minlength=n_groups) for drawn in drawn_groups]).astype(np.float64)
        resampled.append(statistic(values, weights[:, codes]))
    return np.concatenate(resampled)


def leave_out(values: Numbers, codes: Codes, statistic: Statistic, seed: int) -> Numbers:
    """Return the scores [b, V] of values [V, m] without each block of groups; ``codes`` [m] number groups from 0."""
    n_groups = int(codes.max()) + 1
    n_blocks = min(n_groups, MAX_BLOCKS)
    unit_blocks = (np.random.default_rng(seed).permutation(n_groups) % n_blocks)[codes]
    chunks = np.array_split(np.arange(n_blocks), -(-n_blocks * len(codes) // RESAMPLED_AT_ONCE))
    return np.concatenate([statistic(values, (blocks[:, None] != unit_blocks).astype(np.float64)) for blocks in chunks])


def _bca_bounds(scores: Numbers, observed: Numbers, left_out: Numbers, n_groups: int) -> Numbers:
    """Return both ends [2, V] of the BCa intervals of resampled scores [r, V], expanded as in ``intervals``.

    ``left_out`` [b, V] are the scores without each block of groups; their skewness is BCa's acceleration.
    """
    influence = left_out.mean(0) - left_out
    size = np.square(influence).sum(0) ** 1.5
    skewness = np.divide((influence**3).sum(0), 6 * size, out=np.zeros_like(size), where=size > 0)
    share_below = ((scores < observed).mean(0) + (scores <= observed).mean(0)) / 2
    shift = ndtri(share_below.clip(1 / len(scores), 1 - 1 / len(scores)))
    t_quantile = stdtrit(n_groups - 1, (1 - LEVEL) / 2) * (n_groups / (n_groups - 1)) ** 0.5
    ends = []
    for z in (t_quantile, -t_quantile):
        levels = ndtr(shift + (shift + z) / (1 - skewness * (shift + z)))
        ends.append([np.quantile(resampled, level) for resampled, level in zip(scores.T, levels, strict=True)])
    return np.array(ends)


def _widen(bounds: Numbers, values: Numbers, n_groups: int, lowest: float) -> Numbers:
    """Widen the intervals [2, V] of each variant that has one value on all units: its resamples are all the same.

    Values [V, m] are in [``lowest``, 1]. If none of g groups differs, at most a share of 1 - 0.025^(1/g) of all groups
    does (Clopper and Pearson 1934).
    """
    max_unseen_share = 1 - ((1 - LEVEL) / 2) ** (1 / n_groups)
    widened = (bounds + np.array([[-max_unseen_share], [max_unseen_share]])).clip(lowest, 1)
    return np.where(np.ptp(values, axis=1) == 0, widened, bounds)


class _Ranks:
    """Precomputed order of numbers, for repeated weighted ranking."""

    def __init__(self, numbers: Numbers) -> None:
        self._order = np.argsort(numbers, kind="stable")
        sorted_numbers = numbers[self._order]
        starts_tie = np.concatenate([[True], sorted_numbers[1:] != sorted_numbers[:-1]])
        self._tie_starts, self._tie_numbers = starts_tie.nonzero()[0], np.empty(len(numbers), np.int64)
        self._tie_numbers[self._order] = starts_tie.cumsum() - 1

    def weighted(self, weights: Numbers) -> Numbers:
        """Return mid-ranks [r, m] under weights [r, m]."""
        tie_weights = np.add.reduceat(weights[:, self._order], self._tie_starts, axis=1)
        ranks: Numbers = (tie_weights.cumsum(1) - tie_weights / 2)[:, self._tie_numbers]
        return ranks
