import tracemalloc
from itertools import permutations, product
from time import process_time

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from app.statistics.correlation import correlation, ranks
from app.statistics.rearrangements import FEWEST_DRAWN, rearrangements

values = st.floats(-1, 1).map(lambda value: round(value, 2))


def together(x, y, seeds=None, groups=None):
    n = len(x)
    return correlation(tuple(x), tuple(y), tuple(seeds or [0] * n), tuple(groups or [0] * n))


@settings(deadline=None, max_examples=15)
@given(st.lists(st.tuples(values, values), min_size=3, max_size=5))
def test_of_one_seed_coefficients_and_p_values_are_scipys(pairs):
    x, y = (list(one) for one in zip(*pairs, strict=True))
    assume(np.ptp(x) > 0 and np.ptp(y) > 0)
    found = together(x, y)
    assert found.spearman.value == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-9)
    assert found.pearson.value == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-9)
    ranked = stats.rankdata(x), stats.rankdata(y)
    for mine, (one, other) in ((found.spearman, ranked), (found.pearson, (np.array(x), np.array(y)))):
        known = stats.permutation_test(
            (one,),
            lambda moved, other=other: np.corrcoef(moved, other)[0, 1],
            permutation_type="pairings",
            n_resamples=np.inf,
        )
        assert mine.p == pytest.approx(known.pvalue, abs=1e-9)
    assert found.exact


def test_of_several_seeds_the_p_value_counts_every_permutation_within_each():
    x, y, seeds = [0.1, 0.4, 0.2, 0.9, 0.5, 0.7], [3.0, 1.0, 2.0, 8.0, 9.0, 4.0], [0, 0, 0, 1, 1, 1]
    coefficients = [
        stats.pearsonr(x, [*first, *second]).statistic
        for first, second in product(permutations(y[:3]), permutations(y[3:]))
    ]
    r = stats.pearsonr(x, y).statistic
    upper, lower = (
        sum(keep) / 36 for keep in ([c >= r - 1e-12 for c in coefficients], [c <= r + 1e-12 for c in coefficients])
    )
    found = together(x, y, seeds)
    assert found.permutations == 36
    assert found.smallest_p == 2 / 36
    assert found.pearson.p == pytest.approx(min(1, 2 * min(upper, lower)))


def test_what_separates_groups_does_not_enter():
    x = [0.1, 0.2, 0.3, 1.1, 1.2, 1.3]
    y = [0.7, 0.8, 0.9, 0.1, 0.2, 0.3]
    assert together(x, y).spearman.value < 0
    within = together(x, y, groups=["a"] * 3 + ["b"] * 3)
    assert within.spearman.value == pytest.approx(1)
    assert within.pearson.value == pytest.approx(1)


def test_seeds_that_differ_more_than_settings_do_not_turn_the_direction():
    x = [0.1, 0.2, 0.3, 1.1, 1.2, 1.3]
    y = [0.3, 0.2, 0.1, 1.3, 1.2, 1.1]
    found = together(x, y, seeds=[0, 0, 0, 1, 1, 1]).pearson
    assert found.value > 0
    assert not found.positive
    assert found.p == pytest.approx(2 / 36)


def test_many_runs_are_permuted_by_a_fixed_seed_and_the_number_is_told():
    random = np.random.default_rng(0)
    x = random.normal(size=1000)
    y = x + random.normal(size=1000)
    found = together(x, y, seeds=[i % 5 for i in range(1000)])
    assert (found.exact, found.permutations) == (False, 2000)
    assert found.pearson.p == found.smallest_p == pytest.approx(2 / 2001)
    assert found.spearman.value == pytest.approx(stats.spearmanr(x, y).statistic)


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([0.1, 0.2], [0.3, 0.4], "A correlation needs 3 runs or more that have both values; there are 2."),
        ([0.1] * 3, [0.3, 0.4, 0.5], "All runs have the same isotropy, so there is no correlation."),
        ([0.1, 0.2, 0.3], [0.7] * 3, "All runs have the same performance, so there is no correlation."),
    ],
)
def test_where_there_is_no_correlation_the_reason_is_told(x, y, reason):
    found = together(x, y)
    assert (found.spearman.value, found.spearman.p, found.spearman.reason) == (None, None, reason)
    assert (found.pearson.reason, found.permutations, found.smallest_p) == (reason, 0, None)


def test_groups_of_constant_values_are_constant_together():
    found = together([0.1, 0.1, 0.2, 0.2], [1.0, 2.0, 3.0, 4.0], groups=[0, 0, 1, 1])
    assert (
        found.pearson.reason
        == "All runs of what is alike in all else have the same isotropy, so there is no correlation."
    )


def test_one_setting_for_each_seed_leaves_nothing_to_permute():
    found = together([0.1, 0.2, 0.4], [1.0, 2.0, 3.0], seeds=[0, 1, 2]).spearman
    assert (found.value, found.p) == (pytest.approx(1), None)
    assert found.reason == "There is no p: in no seed did two settings finish, so there is nothing to permute."


@given(st.lists(values, min_size=1, max_size=30))
def test_ranks_are_scipys(numbers):
    assert list(ranks(np.array(numbers))) == list(stats.rankdata(numbers))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_a_rearrangement_leaves_every_value_in_its_block(blocks):
    found = rearrangements(blocks)
    assert found.exact or found.total >= FEWEST_DRAWN
    labels, places = np.array(blocks), found.places
    assert sorted(places) == [place for place, block in enumerate(blocks) if blocks.count(block) > 1]
    orders = next(found.orders())
    assert (labels[orders] == labels[places]).all()
    assert (np.sort(orders, axis=1) == np.sort(places)).all()


@pytest.mark.parametrize("at_once", [1, 7, 500_000])
def test_all_rearrangements_come_once_however_many_are_in_memory(at_once, monkeypatch):
    monkeypatch.setattr("app.statistics.rearrangements.AT_ONCE", at_once)
    found = rearrangements("aabbbc")
    orders = [tuple(order) for some in found.orders() for order in some]
    assert (found.total, found.exact) == (12, True)
    assert set(orders) == {first + second for first in permutations((0, 1)) for second in permutations((2, 3, 4))}
    assert len(orders) == 12


def test_blocks_of_one_run_do_not_move_however_many_there_are():
    random = np.random.default_rng(0)
    x, y = random.random(70), random.random(70)
    alone = together(x, y, seeds=range(70))
    assert (alone.spearman.p, alone.permutations) == (None, 0)
    pair = together(x, y, seeds=[*range(69), 0])
    assert (pair.permutations, pair.exact, pair.smallest_p) == (2, True, 1)
    three = together(x, y, seeds=[0, 0, 0, *range(1, 68)])
    r = [stats.pearsonr(x, [*y[list(order)], *y[3:]]).statistic for order in permutations(range(3))]
    upper, lower = (sum(keep) / 6 for keep in ([one >= r[0] for one in r], [one <= r[0] for one in r]))
    assert three.pearson.p == pytest.approx(min(1, 2 * min(upper, lower)))


@pytest.mark.parametrize("factor", [1e-200, 1.0, 1e200])
def test_values_of_any_size_have_the_same_p_which_is_never_nothing(factor):
    x, y = [0.1, 0.2, 0.3, 0.12, 0.22, 0.32], [0.7, 0.75, 0.8, 0.72, 0.76, 0.83]
    found = together(x, [one * factor for one in y], seeds=[0, 0, 0, 1, 1, 1])
    assert found.pearson.p == found.smallest_p == 2 / 36
    assert found.pearson.value == pytest.approx(stats.pearsonr(x, y).statistic)


def test_the_greatest_and_the_least_of_numbers_have_a_p():
    found = together([0.1, 0.2, 0.3], [1.7e308, -1.7e308, 1e308])
    assert found.pearson.p >= found.smallest_p


def test_a_group_of_very_small_values_beside_one_of_equal_ones_is_correlated():
    y, groups = [1.0, 2.0, 3.0, 0.1, 0.5, 0.2], ["a", "a", "a", "b", "b", "b"]
    found = together([0.1, 0.1, 0.1, 1e-170, 2e-170, 3e-170], y, groups=groups)
    expected = together([0.1, 0.1, 0.1, 1.0, 2.0, 3.0], y, groups=groups)
    assert found.pearson.value == pytest.approx(expected.pearson.value)
    assert (found.pearson.p, found.spearman) == (expected.pearson.p, expected.spearman)


def test_ten_thousand_runs_are_correlated_in_a_second_and_little_memory():
    random = np.random.default_rng(0)
    x, y = random.random(10_000), random.random(10_000)
    begun = process_time()
    tracemalloc.start()
    found = together(x, y, seeds=[i % 5 for i in range(10_000)])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert process_time() - begun < 2
    assert peak < 50e6
    assert (found.permutations, found.smallest_p) == (FEWEST_DRAWN, 2 / (FEWEST_DRAWN + 1))
