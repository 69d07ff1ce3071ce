import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import permutation_test

from app.results.statistics.mean_difference import MOST_EXACT_PAIRS, pairs_needed, sign_flips

differences = st.lists(st.floats(-1, 1).map(lambda value: round(value, 3)), min_size=2, max_size=8)


@settings(deadline=None)
@given(differences)
def test_the_exact_p_value_is_scipys(d):
    flips = sign_flips(d)
    expected = permutation_test((np.array(d),), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert flips.p == pytest.approx(expected.pvalue)
    assert flips.exact


@given(differences)
def test_no_p_value_falls_below_the_smallest_and_signs_and_scale_do_not_matter(d):
    flips = sign_flips(d)
    assert flips.smallest_p == 2 / 2 ** len(d) <= flips.p <= 1
    assert sign_flips([-3 * value for value in d]).p == flips.p


@pytest.mark.parametrize(
    ("d", "p"),
    [([0.1, 0.2, 0.3, 0.4, 0.5], 0.0625), ([1e-308] * 5, 0.0625), ([1e308] * 5, 0.0625), ([0.3], 1), ([0.0, 0.0], 1)],
)
def test_differences_of_one_sign_reach_the_smallest_p_value_at_any_size(d, p):
    assert sign_flips(d).p == p


def test_of_many_pairs_flips_are_drawn_and_the_p_value_is_near_the_exact_one():
    d = np.random.default_rng(1).normal(0.5, 1, MOST_EXACT_PAIRS + 3)
    flips = sign_flips(d)
    expected = permutation_test((d,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert (flips.exact, flips.flips) == (False, 9_999)
    assert flips.p == pytest.approx(expected.pvalue, abs=0.02)


@pytest.mark.parametrize(("comparisons", "n"), [(1, 6), (3, 7), (10, 9), (204, 13), (205, 14), (500, 14)])
def test_so_many_pairs_are_needed_that_the_smallest_p_value_passes_after_holm(comparisons, n):
    assert pairs_needed(0.05, comparisons) == n
    assert comparisons * sign_flips([1.0] * n).smallest_p <= 0.05 < comparisons * sign_flips([1.0] * (n - 1)).smallest_p


def test_of_more_comparisons_than_drawn_flips_can_tell_no_number_of_pairs_is_enough():
    assert pairs_needed(0.05, 501) is None
    assert 501 * sign_flips([1.0] * 100).p > 0.05
