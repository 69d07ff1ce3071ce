import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from app.results.statistics.verdict import holm


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(0, 1).map(lambda value: round(value, 4)), min_size=1, max_size=20))
def test_adjusted_p_values_are_those_of_statsmodels(p_values):
    assert holm(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]))


def test_the_smallest_is_multiplied_by_their_number_and_the_order_is_kept():
    assert holm([0.04, 0.01, 0.5]) == pytest.approx([0.08, 0.03, 0.5])


def test_none_has_none():
    assert holm([]) == []
