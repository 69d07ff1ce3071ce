"""Mean differences between two settings: with the error of seeds and rows, and by exact sign flips."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]


class Spread(NamedTuple):
    """Mean squares of differences in a layout of rows and seeds, and the numbers of seeds and rows."""

    of_seeds: float
    of_rows: float
    of_rest: float
    seeds: int
    rows: int

    @property
    def between_seeds(self) -> float:
        """Return the variance between seeds beyond that of rows; 0 if there is none."""
        return max(0.0, (self.of_seeds - self.of_rest) / self.rows)

    @property
    def between_rows(self) -> float:
        """Return the variance between rows beyond that of seeds; 0 if there is none."""
        return max(0.0, (self.of_rows - self.of_rest) / self.seeds)

    def expected_with(self, seeds: int, rows: int) -> "Spread":
        """Return the mean squares expected with other numbers of seeds and rows."""
        return Spread(
            self.of_rest + rows * self.between_seeds,
            self.of_rest + seeds * self.between_rows,
            self.of_rest,
            seeds,
            rows,
        )

    @property
    def variance(self) -> float:
        """Return the variance of the mean difference, at least its largest component."""
        parts = (self.of_seeds, self.of_rows, self.of_rest)
        return max(self.of_seeds + self.of_rows - self.of_rest, *parts) / (self.seeds * self.rows)

    @property
    def degrees(self) -> float:
        """Return Satterthwaite's degrees of freedom of that variance; infinite if it is 0."""
        seed_degrees, row_degrees = self.seeds - 1, self.rows - 1
        cells = self.seeds * self.rows
        parts = [(self.of_seeds, seed_degrees), (self.of_rows, row_degrees), (self.of_rest, seed_degrees * row_degrees)]
        denominator = sum((square / cells) ** 2 / count for square, count in parts)
        return self.variance**2 / denominator if denominator > 0 else float("inf")


class MeanDifference(NamedTuple):
    """A mean difference and its standard error; None if the error is unknown."""

    estimate: float
    error: float | None
    """Standard error."""
    degrees: float
    """Of freedom, of Student's t."""
    seeds: int
    rows: int | None
    """Number of rows in the error; None if the error is over seeds only."""
    spread: Spread | None
    """Components of the error if it is over both rows and seeds."""


def over_rows_and_seeds(differences: Values) -> MeanDifference:
    """Return the mean of differences [rows, seeds], for new seeds and new rows: two-way random effects.

    Needs two rows and two seeds. Differences that are all equal but not 0 have no error. Row values of Matthews or F1
    are all equal if one side is always right and the other gives a single answer.
    """
    rows, seeds = differences.shape
    mean = float(differences.mean())
    seed_effects, row_effects = differences.mean(axis=0) - mean, differences.mean(axis=1) - mean
    residuals = differences - mean - seed_effects - row_effects[:, None]
    spread = Spread(
        rows * float(seed_effects @ seed_effects) / (seeds - 1),
        seeds * float(row_effects @ row_effects) / (rows - 1),
        float((residuals**2).sum()) / ((rows - 1) * (seeds - 1)),
        seeds,
        rows,
    )
    error = None if mean and not np.ptp(differences) else float(np.sqrt(spread.variance))
    return MeanDifference(mean, error, spread.degrees, seeds, rows, spread)


def over_rows(differences: Values) -> MeanDifference:
    """Return the mean of differences [rows, seeds] for new rows but the same runs. Needs two rows."""
    rows, seeds = differences.shape
    row_means = differences.mean(axis=1)
    error = float(row_means.std(ddof=1) / np.sqrt(rows))
    return MeanDifference(float(row_means.mean()), error, rows - 1, seeds, rows, None)


def over_seeds(differences: Values) -> MeanDifference:
    """Return the mean of one difference per seed, for new seeds but the same rows: the paired t-test.

    Differences that are all equal have no error. Coarse scores hide it, and an error of 0 would decide any comparison.
    """
    seeds = len(differences)
    shifted = differences - differences[0]
    mean = float(differences[0] + shifted.mean())
    if seeds < 2 or np.ptp(shifted) <= 1e-12 * np.abs(differences).max(initial=0.0):
        return MeanDifference(mean, None, max(seeds - 1, 1), seeds, None, None)
    error = float(shifted.std(ddof=1) / np.sqrt(seeds))
    return MeanDifference(mean, error, seeds - 1, seeds, None, None)


MOST_EXACT_PAIRS = 13
DRAWN = 9_999
ROUNDING = 1e-12


class SignFlips(NamedTuple):
    """The two-sided p-value of a mean difference under flips of the pairs' signs."""

    p: float
    smallest_p: float
    """Smallest p that this many pairs can reach."""
    flips: int
    exact: bool


def sign_flips(differences: Sequence[float]) -> SignFlips:
    """Test whether paired differences center on 0. Under the null hypothesis, both signs of each are equally likely."""
    scaled = np.asarray(differences, float)
    scaled = scaled / (np.abs(scaled).max() or 1.0)
    exact = len(scaled) <= MOST_EXACT_PAIRS
    signs = _all_signs(len(scaled)) if exact else _random_signs(len(scaled))
    is_extreme = np.abs(signs @ scaled) >= abs(scaled.sum()) - ROUNDING * np.abs(scaled).sum()
    n_extreme, n_flips = int(is_extreme.sum()), len(is_extreme)
    return SignFlips(
        n_extreme / n_flips if exact else (n_extreme + 1) / (n_flips + 1), smallest_p(len(scaled)), n_flips, exact
    )


def smallest_p(pairs: int) -> float:
    """Return the smallest p that this number of pairs can reach: 2 / 2^n, or 1 / 10,000 with random flips."""
    return 2 / 2**pairs if pairs <= MOST_EXACT_PAIRS else 1 / (DRAWN + 1)


def pairs_needed(level: float, comparisons: int) -> int | None:
    """Return the smallest number of pairs whose smallest p, after Holm's correction, is at most ``level``.

    Return None if no number suffices, because random flips cannot resolve so small a p.
    """
    return next((n for n in range(1, MOST_EXACT_PAIRS + 2) if comparisons * smallest_p(n) <= level), None)


def _all_signs(n: int) -> npt.NDArray[np.float64]:
    return np.asarray(2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1) - 1, float)


@lru_cache(maxsize=8)
def _random_signs(n: int) -> npt.NDArray[np.float64]:
    return np.asarray(2.0 * np.random.default_rng(0).integers(0, 2, (DRAWN, n)) - 1, float)
