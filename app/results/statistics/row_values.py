"""Contribution of each validation row to a metric: values whose mean is the metric, and whose spread is its error.

For a mean over rows these are the scores of the rows. For other metrics they are jackknife values: the metric, plus
n - 1 times how far it falls when the row is left out (Efron and Stein 1981).
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
Counts = npt.NDArray[np.float64]
"""Confusion matrix [reference, predicted]."""


def accuracy_values(reference: Labels, predicted: Labels) -> Values:
    """Return 1 for each row that is predicted correctly, else 0."""
    return np.asarray(reference == predicted, float)


def f1_values(reference: Labels, predicted: Labels, positive: int | None) -> Values:
    """Return jackknife values of F1: of the positive label, or if that is None, the mean over all labels that occur."""
    return _jackknife_counts(reference, predicted, lambda counts, labels: _f1(counts, labels, positive))


def matthews_values(reference: Labels, predicted: Labels) -> Values:
    """Return jackknife values of the Matthews correlation, for any number of labels."""
    return _jackknife_counts(reference, predicted, _matthews)


def pearson_values(reference: Values, predicted: Values) -> Values | None:
    """Return jackknife values of Pearson's correlation; None if a side is constant, or could be without one row."""
    n = len(reference)
    if n < 3:
        return None
    x, y = _standardize(reference), _standardize(predicted)
    if x is None or y is None:
        return None
    # Without row r, sums of squares about the new mean lose n / (n - 1) times the row's own square.
    loss_factor = n / (n - 1)
    remaining_squares = [n - loss_factor * squares for squares in (x * x, y * y)]
    if min(squares.min() for squares in remaining_squares) <= 1e-9 * n:
        return None
    correlation = float(x @ y) / n
    left_out_values = (x @ y - loss_factor * x * y) / np.sqrt(remaining_squares[0] * remaining_squares[1])
    return _jackknife(correlation, left_out_values)


def spearman_values(reference: Values, predicted: Values) -> Values | None:
    """Return values of Spearman's correlation by row; None if a side is constant or there are fewer than three rows.

    Uses the infinitesimal jackknife. Leaving out one row after another takes n² steps, because all other ranks move.
    Its derivative takes n log n steps and differs by a relative 1 / n.
    """
    if len(reference) < 3 or np.ptp(reference) == 0 or np.ptp(predicted) == 0:
        return None
    n = len(reference)
    (a, sum_above_a), (b, sum_above_b) = _rank_shares(reference), _rank_shares(predicted)
    covariance, a_variance, b_variance = (
        float(ranks @ other_ranks) / n for ranks, other_ranks in ((a, b), (a, a), (b, b))
    )
    covariance_terms = a * b + sum_above_a(b) + sum_above_b(a)
    a_terms, b_terms = a * a + 2 * sum_above_a(a), b * b + 2 * sum_above_b(b)
    scale = np.sqrt(a_variance * b_variance)
    correlation = covariance / scale
    influence = covariance_terms / scale - correlation / 2 * (a_terms / a_variance + b_terms / b_variance)
    return np.asarray(correlation + influence - influence.mean(), float)


def _jackknife(value: float, left_out_values: Values) -> Values:
    return np.asarray(value + (len(left_out_values) - 1) * (left_out_values.mean() - left_out_values), float)


def _jackknife_counts(reference: Labels, predicted: Labels, metric: Callable[[Counts, Labels], float]) -> Values:
    """Return jackknife values of a metric computed from label counts.

    Rows with the same pair of labels change the metric equally, so it is computed once per pair.
    """
    labels, label_indices = np.unique(np.concatenate([reference, predicted]), return_inverse=True)
    k, n = len(labels), len(reference)
    row_pairs = label_indices[:n] * k + label_indices[n:]
    pairs, pair_index = np.unique(row_pairs, return_inverse=True)
    counts = np.bincount(row_pairs, minlength=k * k).astype(float)
    left_out_values = np.array([metric((counts - np.eye(1, k * k, pair)).reshape(k, k), labels) for pair in pairs])
    return _jackknife(metric(counts.reshape(k, k), labels), left_out_values[pair_index])


def _f1(counts: Counts, labels: Labels, positive: int | None) -> float:
    """Return the F1 of the class ``positive``; None averages over the classes that occur."""
    hits = np.diag(counts)
    occurrences = counts.sum(axis=0) + counts.sum(axis=1)
    if positive is not None:
        index = np.flatnonzero(labels == positive)
        return float(2 * hits[index[0]] / occurrences[index[0]]) if len(index) and occurrences[index[0]] else 0.0
    occurs = occurrences > 0
    return float((2 * hits[occurs] / occurrences[occurs]).mean())


def _matthews(counts: Counts, _: Labels) -> float:
    n, hits = counts.sum(), np.trace(counts)
    predicted_counts, reference_counts = counts.sum(axis=0), counts.sum(axis=1)
    squared_denominator = (n * n - predicted_counts @ predicted_counts) * (n * n - reference_counts @ reference_counts)
    if squared_denominator <= 0:
        return 0.0
    return float((n * hits - predicted_counts @ reference_counts) / np.sqrt(squared_denominator))


def _standardize(values: Values) -> Values | None:
    centered = values - values[0]
    centered = centered - centered.mean()
    deviation = float(np.sqrt((centered @ centered) / len(values)))
    return centered / deviation if deviation > 0 and np.isfinite(deviation) else None


def _rank_shares(values: Values) -> tuple[Values, Callable[[Values], Values]]:
    """Return centered ranks / n, and a function that sums values / n over the rows above each row and half its ties."""
    distinct, rank_index, value_counts = np.unique(values, return_inverse=True, return_counts=True)
    n = len(values)
    rank_share = (np.cumsum(value_counts) - value_counts / 2)[rank_index] / n - 0.5

    def sum_above(row_values: Values) -> Values:
        sums = np.bincount(rank_index, row_values, len(distinct))
        return np.asarray((row_values.sum() - np.cumsum(sums) + sums / 2)[rank_index] / n, float)

    return np.asarray(rank_share, float), sum_above
