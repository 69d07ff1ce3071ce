import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from app.results.statistics import row_values


def brute_force(metric, right, guess):
    n = len(right)
    left_out = np.array([metric(np.delete(right, row), np.delete(guess, row)) for row in range(n)])
    return metric(right, guess) + (n - 1) * (left_out.mean() - left_out)


def labels(classes=2, n=40, seed=0):
    random = np.random.default_rng(seed)
    right = random.integers(0, classes, n)
    return right, np.where(random.random(n) < 0.7, right, random.integers(0, classes, n))


def numbers(n=60):
    random = np.random.default_rng(1)
    right = random.integers(0, 6, n).astype(float)
    return right, right + random.normal(size=n)


def binary_f1(right, guess):
    return f1_score(right, guess, zero_division=0)


def macro_f1(right, guess):
    return f1_score(right, guess, average="macro", zero_division=0)


def test_accuracy_values_match_brute_force():
    right, guess = labels()
    values = row_values.accuracy_values(right, guess)
    assert values.mean() == pytest.approx(accuracy_score(right, guess))
    assert values == pytest.approx(brute_force(accuracy_score, right, guess))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_f1_and_matthews_values_match_brute_force(seed):
    two, three = labels(2, seed=seed), labels(3, seed=seed)
    assert row_values.f1_values(*two, 1) == pytest.approx(brute_force(binary_f1, *two))
    assert row_values.f1_values(*three, None) == pytest.approx(brute_force(macro_f1, *three))
    for guess in (two, three):
        assert row_values.matthews_values(*guess) == pytest.approx(brute_force(matthews_corrcoef, *guess))


def test_pearson_and_rare_label_values_match_brute_force():
    right, guess = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 1, 1, 1])
    assert row_values.f1_values(right, guess, None) == pytest.approx(brute_force(macro_f1, right, guess))
    assert row_values.matthews_values(np.array([0, 1, 1, 0]), np.ones(4, int)) == pytest.approx(np.zeros(4))
    assert row_values.f1_values(np.array([0, 1, 1, 0]), np.zeros(4, int), 1) == pytest.approx(np.zeros(4))
    right, guess = numbers()
    values = row_values.pearson_values(right, 1e6 + guess)
    assert values == pytest.approx(brute_force(lambda x, y: stats.pearsonr(x, y).statistic, right, guess), rel=1e-6)
    assert row_values.pearson_values(right, np.ones(60)) is None
    assert row_values.pearson_values(right, np.eye(60)[0]) is None


def test_spearman_values_approximate_brute_force():
    right, guess = numbers(300)
    values = row_values.spearman_values(right, guess)
    expected = brute_force(lambda x, y: stats.spearmanr(x, y).statistic, right, guess)
    assert values.mean() == pytest.approx(stats.spearmanr(right, guess).statistic)
    assert np.corrcoef(values, expected)[0, 1] > 0.9999
    assert values.std() == pytest.approx(expected.std(), rel=0.02)
    assert row_values.spearman_values(right, np.ones(300)) is None
