from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from app.core.evidence import min_lambdas
from app.results.statistics.relation import MeasuredRun, adjusted_means, relation


def runs(x, y, seeds=1, block="a", stratum=0):
    """Settings at λ = 0, 1, ...; seeds shift both values, and change no rank."""
    return [
        MeasuredRun(block, stratum, (block, stratum, lam), float(lam), seed, one + seed, other - 2 * seed)
        for lam, (one, other) in enumerate(zip(x, y, strict=True))
        for seed in range(seeds)
    ]


X, Y = [0.1, 0.4, 0.2, 0.9, 0.5], [0.3, 0.5, 0.2, 0.6, 0.9]


def test_of_one_method_it_is_spearmans_over_settings_whatever_the_number_of_seeds():
    known = stats.spearmanr(X, Y).statistic
    null = [stats.spearmanr(X, order).statistic for order in permutations(Y)]
    p = np.mean(np.abs(null) >= abs(known) - 1e-9)
    for seeds in (1, 2, 5):
        found = relation(tuple(runs(X, Y, seeds)))
        assert found.value == pytest.approx(known)
        assert found.p == pytest.approx(p)
        assert (found.permutations, found.exact, found.settings, found.lambdas) == (120, True, 5, (5,))


@pytest.mark.parametrize(("lambdas", "least"), [(3, 1 / 3), (4, 1 / 12), (5, 1 / 60), (7, 2 / 5040)])
def test_the_least_p_goes_by_the_number_of_lambdas(lambdas, least):
    x = list(range(lambdas))
    found = relation(tuple(runs(x, x, 5)))
    assert found.p == found.smallest_p == pytest.approx(least)
    assert found.positive
    assert not relation(tuple(runs(x, x[::-1], 2))).positive


def test_five_values_are_the_fewest_that_can_show_a_relation_and_of_many_permutations_are_drawn():
    assert min_lambdas() == 5
    found = relation(tuple(runs(range(9), range(9))))
    assert (found.permutations, found.exact) == (9_999, False)
    assert found.p == found.smallest_p == pytest.approx(2 / 10_000)


def test_lambdas_move_with_all_that_is_crossed_with_them_and_a_shared_baseline_once():
    rates = [runs(X, Y, 2, stratum="low"), runs(Y, X, 2, stratum="high")]
    found = relation(tuple(rates[0] + rates[1]))
    assert (found.lambdas, found.settings, found.permutations) == ((5,), 10, 120)
    same = relation(tuple(runs(X, X, stratum=0) + runs(X, X, stratum=1) + runs(X, X, stratum=2)))
    assert same.p == pytest.approx(2 / 120)
    low, high = runs(X, Y, stratum="low"), runs([x + 5 for x in X], [y + 5 for y in Y], stratum="high")
    assert relation(tuple(low + high)).value == pytest.approx(relation(tuple(runs(X, Y))).value)
    shared = [one._replace(stratum=zeta, setting=one.setting if one.lam == 0 else (zeta, one.lam))
              for zeta in (0.2, 0.8) for one in runs(X, Y)]  # fmt: skip
    found = relation(tuple(shared))
    assert (found.settings, found.lambdas, found.permutations) == (9, (5,), 120)


def test_lambdas_never_change_places_across_methods_models_and_strata():
    found = relation(tuple(runs(X, Y) + runs(X[:4], Y[:4], block="b")))
    assert (found.lambdas, found.permutations, found.smallest_p) == ((5, 4), 120 * 24, 2 / 2880)
    far = relation(tuple(runs([0, 1, 2], [2, 1, 0]) + runs([10, 11, 12], [12, 11, 10], block="b")))
    assert far.value == pytest.approx(-1)
    crossed = runs(X, Y, stratum=0) + [one for one in runs(X, Y, stratum=1) if one.lam != 2]
    found = relation(tuple(crossed))
    assert found.lambdas == (4,)
    apart = relation(tuple(runs(X, Y)[:2] + [one._replace(stratum=1) for one in runs(X, Y)[2:]]))
    assert apart.lambdas == (2, 3)


def test_means_of_settings_are_adjusted_for_seeds_that_are_missing():
    found = adjusted_means(["a", "a", "b"], [0, 1, 1], [1.0, 11.0, 12.0])
    assert found["b"] - found["a"] == pytest.approx(1.0)
    whole = adjusted_means(["a", "b", "a", "b"], [0, 0, 1, 1], [1.0, 2.0, 5.0, 8.0])
    assert whole == pytest.approx({"a": 3.0, "b": 5.0})
    settings, values = ["a"] * 2 + ["b"] * 5 + ["c"], [0.80] * 2 + [0.90] * 5 + [0.92]
    assert adjusted_means(settings, range(8), values) == pytest.approx({"a": 0.80, "b": 0.90, "c": 0.92})
    backward = adjusted_means(settings[::-1], range(8), values[::-1])
    assert backward == pytest.approx({"a": 0.80, "b": 0.90, "c": 0.92})


def test_where_there_is_no_relation_the_reason_is_told_and_rounding_makes_no_ranks():
    assert "3 values of λ" in relation(tuple(runs([1, 2], [1, 2], 5))).reason
    assert "same performance" in relation(tuple(runs(X, [1, 1, 1, 1, 1]))).reason
    assert "same isotropy" in relation(tuple(runs([1] * 5, Y))).reason
    assert "3 values" in relation(()).reason
    near = [0.1 + 0.2, 0.3, 0.5]
    assert relation(tuple(runs(near, [1, 1, 2]))).value == pytest.approx(1)
