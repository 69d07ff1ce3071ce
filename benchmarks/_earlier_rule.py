"""The verdicts of version 1909e121, as a baseline: paired differences, a fiducial seed variance, Bonferroni."""

from math import lgamma, log, sqrt

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr
from scipy.stats import t as student

LEVEL = 0.05
NODES = 160  # Of the integral over the fiducial seed variance
BISECTIONS = 40
TINY = 1e-30

Values = npt.NDArray[np.float64]


def half_widths_by_rows(differences: Values, covariances: Values, rows: int) -> Values:
    """Return half-widths [c] of differences [c, seeds] with covariances over rows [c, seeds, seeds]."""
    comparisons, seeds = differences.shape
    seed_square = rows * differences.var(axis=1, ddof=1)
    row_square = covariances.sum(axis=(1, 2)) / seeds
    residual = (np.trace(covariances, axis1=1, axis2=2) - row_square) / (seeds - 1)
    cells = seeds * rows
    variance = np.max([seed_square + row_square - residual, seed_square, row_square, residual], axis=0) / cells
    squares = ((seed_square, seeds - 1), (row_square, rows - 1), (residual, (seeds - 1) * (rows - 1)))
    satterthwaite_sum = sum((square / cells) ** 2 / degrees for square, degrees in squares)
    variance = np.maximum(variance, TINY)
    half = student.isf(LEVEL / comparisons / 2, variance**2 / np.maximum(satterthwaite_sum, TINY)) * np.sqrt(variance)
    if comparisons == 1:
        return np.asarray(half, float)
    nodes, weights = _chi_square(seeds - 1)
    possible = np.maximum(np.maximum(seed_square[:, None] * (seeds - 1) / nodes, residual[:, None]), TINY)
    spreads = np.sqrt((possible + np.maximum(row_square - residual, 0)[:, None]) / cells)
    low, high = np.zeros(comparisons), 1000 * np.sqrt(variance)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        too_low = 2 * ndtr(-middle[:, None] / spreads) @ weights > LEVEL / comparisons
        low, high = np.where(too_low, middle, low), np.where(too_low, high, middle)
    return np.asarray(np.maximum(half, high), float)


def half_widths_by_seeds(differences: Values) -> Values:
    """Return half-widths [comparisons] of differences [comparisons, seeds]; infinite where all are equal."""
    comparisons, seeds = differences.shape
    errors = differences.std(axis=1, ddof=1) / sqrt(seeds)
    half = student.isf(LEVEL / comparisons / 2, seeds - 1) * errors
    return np.asarray(np.where(np.ptp(differences, axis=1) > 1e-12, half, np.inf), float)


def _chi_square(degrees: int) -> tuple[Values, Values]:
    logarithms = np.linspace(log(degrees) - 60 / degrees - 5, log(degrees + 12 * sqrt(2 * degrees) + 60), NODES)
    scale = degrees / 2 * log(2) + lgamma(degrees / 2)
    weights = np.exp(degrees / 2 * logarithms - np.exp(logarithms) / 2 - scale)
    return np.exp(logarithms), np.asarray(weights / weights.sum(), float)
