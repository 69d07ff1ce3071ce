"""The mean of differences between two settings, with the error that seeds, rows, or both give it."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FEWEST_SEEDS = 3
"""Of fewer seeds no interval covers what it promises: a bootstrap of two covers .69."""

Values = npt.NDArray[np.float64]


class Spread(NamedTuple):
    """Mean squares of differences in a layout of rows and seeds, and how many there are of each."""

    of_seeds: float
    of_rows: float
    of_rest: float
    seeds: int
    rows: int

    @property
    def between_seeds(self) -> float:
        """The variance from seed to seed, beyond what rows leave; 0 where it is not seen."""
        return max(0.0, (self.of_seeds - self.of_rest) / self.rows)

    @property
    def between_rows(self) -> float:
        """The variance from row to row, beyond what seeds leave; 0 where it is not seen."""
        return max(0.0, (self.of_rows - self.of_rest) / self.seeds)

    def of_others(self, seeds: int, rows: int) -> "Spread":
        """Return the mean squares to expect of other numbers of seeds and rows."""
        return Spread(
            self.of_rest + rows * self.between_seeds,
            self.of_rest + seeds * self.between_rows,
            self.of_rest,
            seeds,
            rows,
        )

    @property
    def variance(self) -> float:
        """The variance of the mean difference: never below its greatest part."""
        parts = (self.of_seeds, self.of_rows, self.of_rest)
        return max(self.of_seeds + self.of_rows - self.of_rest, *parts) / (self.seeds * self.rows)

    @property
    def degrees(self) -> float:
        """Satterthwaite's degrees of freedom of that variance; infinite where there is none."""
        s, r = self.seeds - 1, self.rows - 1
        cells = self.seeds * self.rows
        of = [(self.of_seeds, s), (self.of_rows, r), (self.of_rest, s * r)]
        below = sum((square / cells) ** 2 / count for square, count in of)
        return self.variance**2 / below if below > 0 else float("inf")


class MeanDifference(NamedTuple):
    """A mean difference; without ``error`` there is no telling how sure it is."""

    estimate: float
    error: float | None
    """Standard error."""
    degrees: float
    """Of freedom, of Student's t."""
    seeds: int
    rows: int | None
    """Rows that are part of the error; None where seeds alone are."""
    spread: Spread | None
    """What the error is made of, where rows and seeds both are."""


def over_rows_and_seeds(differences: Values) -> MeanDifference:
    """Return the mean of differences [rows, seeds], for new seeds and new rows: two-way random effects.

    Needs two rows and two seeds.
    """
    rows, seeds = differences.shape
    mean = float(differences.mean())
    by_seed, by_row = differences.mean(axis=0) - mean, differences.mean(axis=1) - mean
    rest = differences - mean - by_seed - by_row[:, None]
    spread = Spread(
        rows * float(by_seed @ by_seed) / (seeds - 1),
        seeds * float(by_row @ by_row) / (rows - 1),
        float((rest**2).sum()) / ((rows - 1) * (seeds - 1)),
        seeds,
        rows,
    )
    return MeanDifference(mean, float(np.sqrt(spread.variance)), spread.degrees, seeds, rows, spread)


def over_rows(differences: Values) -> MeanDifference:
    """Return the mean of differences [rows, seeds] for new rows and these very runs. Needs two rows."""
    rows, seeds = differences.shape
    by_row = differences.mean(axis=1)
    error = float(by_row.std(ddof=1) / np.sqrt(rows))
    return MeanDifference(float(by_row.mean()), error, rows - 1, seeds, rows, None)


def over_seeds(differences: Values) -> MeanDifference:
    """Return the mean of one difference a seed, for new seeds and these very rows: the paired t-test.

    Differences that are all equal have no error: scores in steps hide it, and to take it for 0 would decide anything.
    """
    seeds = len(differences)
    seen = differences - differences[0]
    mean = float(differences[0] + seen.mean())
    if seeds < 2 or np.ptp(seen) <= 1e-12 * np.abs(differences).max(initial=0.0):
        return MeanDifference(mean, None, max(seeds - 1, 1), seeds, None, None)
    error = float(seen.std(ddof=1) / np.sqrt(seeds))
    return MeanDifference(mean, error, seeds - 1, seeds, None, None)
