from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from app.core.evidence import min_lambdas
from app.results.statistics.relation import MeasuredRun, adjust_means, measure_relation


def runs(x, y, seeds=1, block="a", stratum=0):
    """Return runs of settings at λ = 0, 1, ...; seeds shift both values without changing ranks."""
    return [
        MeasuredRun(block, stratum, (block, stratum, lam), float(lam), seed, x_value + seed, y_value - 2 * seed)
        for lam, (x_value, y_value) in enumerate(zip(x, y, strict=True))
        for seed in range(seeds)
    ]


X, Y = [0.1, 0.4, 0.2, 0.9, 0.5], [0.3, 0.5, 0.2, 0.6, 0.9]


def test_relation_of_one_method_is_spearmans_over_settings():
    expected = stats.spearmanr(X, Y).statistic
    null = [stats.spearmanr(X, order).statistic for order in permutations(Y)]
    p = np.mean(np.abs(null) >= abs(expected) - 1e-9)
    for seeds in (1, 2, 5):
        result = measure_relation(tuple(runs(X, Y, seeds)))
        assert result.value == pytest.approx(expected)
        assert result.p == pytest.approx(p)
        assert (result.permutations, result.exact, result.settings, result.lambdas) == (120, True, 5, (5,))


@pytest.mark.parametrize(("lambdas", "smallest"), [(3, 1 / 3), (4, 1 / 12), (5, 1 / 60), (7, 2 / 5040)])
def test_smallest_p_depends_on_number_of_lambdas(lambdas, smallest):
    x = list(range(lambdas))
    result = measure_relation(tuple(runs(x, x, 5)))
    assert result.p == result.smallest_p == pytest.approx(smallest)
    assert result.positive
    assert not measure_relation(tuple(runs(x, x[::-1], 2))).positive


def test_relation_needs_five_lambdas_and_samples_permutations():
    assert min_lambdas() == 5
    result = measure_relation(tuple(runs(range(9), range(9))))
    assert (result.permutations, result.exact) == (9_999, False)
    assert result.p == result.smallest_p == pytest.approx(2 / 10_000)


def test_crossed_settings_are_permuted_together():
    rates = [runs(X, Y, 2, stratum="low"), runs(Y, X, 2, stratum="high")]
    result = measure_relation(tuple(rates[0] + rates[1]))
    assert (result.lambdas, result.settings, result.permutations) == ((5,), 10, 120)
    same = measure_relation(tuple(runs(X, X, stratum=0) + runs(X, X, stratum=1) + runs(X, X, stratum=2)))
    assert same.p == pytest.approx(2 / 120)
    low, high = runs(X, Y, stratum="low"), runs([x + 5 for x in X], [y + 5 for y in Y], stratum="high")
    assert measure_relation(tuple(low + high)).value == pytest.approx(measure_relation(tuple(runs(X, Y))).value)
    shared = [row._replace(stratum=zeta, setting=row.setting if row.lam == 0 else (zeta, row.lam))
              for zeta in (0.2, 0.8) for row in runs(X, Y)]  # fmt: skip
    result = measure_relation(tuple(shared))
    assert (result.settings, result.lambdas, result.permutations) == (9, (5,), 120)


def test_lambdas_are_permuted_only_within_blocks_and_strata():
    result = measure_relation(tuple(runs(X, Y) + runs(X[:4], Y[:4], block="b")))
    assert (result.lambdas, result.permutations, result.smallest_p) == ((5, 4), 120 * 24, 2 / 2880)
    far = measure_relation(tuple(runs([0, 1, 2], [2, 1, 0]) + runs([10, 11, 12], [12, 11, 10], block="b")))
    assert far.value == pytest.approx(-1)
    crossed = runs(X, Y, stratum=0) + [row for row in runs(X, Y, stratum=1) if row.lam != 2]
    result = measure_relation(tuple(crossed))
    assert result.lambdas == (4,)
    separate = measure_relation(tuple(runs(X, Y)[:2] + [row._replace(stratum=1) for row in runs(X, Y)[2:]]))
    assert separate.lambdas == (2, 3)


def test_setting_means_are_adjusted_for_missing_seeds():
    means = adjust_means(["a", "a", "b"], [0, 1, 1], [1.0, 11.0, 12.0])
    assert means["b"] - means["a"] == pytest.approx(1.0)
    complete = adjust_means(["a", "b", "a", "b"], [0, 0, 1, 1], [1.0, 2.0, 5.0, 8.0])
    assert complete == pytest.approx({"a": 3.0, "b": 5.0})
    settings, values = ["a"] * 2 + ["b"] * 5 + ["c"], [0.80] * 2 + [0.90] * 5 + [0.92]
    assert adjust_means(settings, range(8), values) == pytest.approx({"a": 0.80, "b": 0.90, "c": 0.92})
    backward = adjust_means(settings[::-1], range(8), values[::-1])
    assert backward == pytest.approx({"a": 0.80, "b": 0.90, "c": 0.92})


def test_undefined_relation_states_reason_and_ignores_rounding():
    assert "3 values of λ" in measure_relation(tuple(runs([1, 2], [1, 2], 5))).reason
    assert "same performance" in measure_relation(tuple(runs(X, [1, 1, 1, 1, 1]))).reason
    assert "same isotropy" in measure_relation(tuple(runs([1] * 5, Y))).reason
    assert "3 values" in measure_relation(()).reason
    near = [0.1 + 0.2, 0.3, 0.5]
    assert measure_relation(tuple(runs(near, [1, 1, 2]))).value == pytest.approx(1)
