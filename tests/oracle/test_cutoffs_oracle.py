"""Cutoffs and P(match), against exact binomial tails and scikit-learn."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import beta, binomtest
from sklearn.isotonic import IsotonicRegression

from isotropy.catalog.calibration import PromiseKind
from isotropy.tasks.cutoffs import allowed_errors, error_rate, fewest_labels, find_cutoff, match_curve


@pytest.fixture
def random():
    return np.random.default_rng(20_261_128)


@pytest.mark.parametrize(("promise", "labels"), [(0.01, 299), (0.05, 59), (0.1, 29)])
def test_promise_takes_as_many_labels_as_wilks_says(promise, labels):
    assert fewest_labels(promise) == labels
    assert (allowed_errors(labels - 1, promise), allowed_errors(labels, promise)) == (-1, 0)


@pytest.mark.parametrize("promise", [0.01, 0.05, 0.1])
def test_allowed_errors_keep_upper_bound_below_promise(promise):
    for n in (29, 59, 120, 299, 600, 2_000):
        allowed = allowed_errors(n, promise)
        upper = [binomtest(k, n).proportion_ci(0.9).high for k in (max(allowed, 0), allowed + 1)]  # 95% one-sided
        assert upper[1] > promise
        assert allowed < 0 or upper[0] <= promise


@pytest.mark.parametrize("kind", PromiseKind)
def test_true_rate_of_cutoff_has_distribution_of_order_statistic(kind, random):
    n, promise, draws = 120, 0.1, 4_000
    rates = []
    for _ in range(draws):
        cutoff = find_cutoff(random.random(n), kind, promise, unit=1e-9)
        rates.append(cutoff if kind is PromiseKind.MISS else 1 - cutoff)
    k = allowed_errors(n, promise) + 1
    expected = beta.cdf(promise, k, n - k + 1)
    assert expected >= 0.95
    assert np.mean(np.array(rates) <= promise) == pytest.approx(expected, abs=4 * (0.05 * 0.95 / draws) ** 0.5)


def test_error_rate_has_clopper_pearson_interval():
    for wrong, n in ((0, 7), (3, 40), (40, 40)):
        rate = error_rate(np.arange(n) < wrong)
        interval = binomtest(wrong, n).proportion_ci()
        assert (rate.value, rate.pairs) == (wrong / n, n)
        assert (rate.low, rate.high) == pytest.approx((interval.low, interval.high), abs=1e-9)
    assert error_rate(np.zeros(0, bool)) is None


@pytest.mark.parametrize("digits", [None, 1])
@pytest.mark.parametrize("n", [60, 700])
def test_curve_is_isotonic_regression(digits, n, random):
    similarities = random.normal(size=n) if digits is None else random.normal(size=n).round(digits)
    is_match = random.random(n) < 1 / (1 + np.exp(-2 * similarities))
    curve = match_curve(similarities, is_match, seed=0)
    oracle = IsotonicRegression().fit(similarities, is_match)
    np.testing.assert_allclose(
        [point.share for point in curve], oracle.predict([point.similarity for point in curve]), atol=1e-9
    )
    for lower, upper in pairwise(curve):
        assert lower.similarity < upper.similarity
        assert (lower.low, lower.high) <= (upper.low, upper.high)
    assert all(0 <= point.low <= point.share <= point.high <= 1 for point in curve)
    np.testing.assert_array_equal(
        [point.similarity for point in match_curve(similarities, is_match, 0, sign=-1)],
        [-point.similarity for point in curve[::-1]],
    )
