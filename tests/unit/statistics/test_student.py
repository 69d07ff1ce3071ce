from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from app.core.evidence import t_quantile, two_sided_p

degrees = st.floats(0.5, 1e6)


@given(st.floats(0, 1e4), degrees)
def test_tails_match_scipy(t, df):
    assert two_sided_p(t, df) == pytest.approx(2 * stats.t.sf(t, df), rel=1e-8, abs=1e-290)


@given(st.floats(1e-6, 0.999), st.floats(1, 1e6))
def test_quantiles_match_scipy(p, df):
    assert t_quantile(p, df) == pytest.approx(stats.t.isf(p / 2, df), rel=1e-7)


def test_infinite_degrees_give_normal_distribution():
    assert t_quantile(0.05, inf) == pytest.approx(1.959964, abs=1e-6)
    assert two_sided_p(inf, 3) == 0
    assert two_sided_p(0, 3) == pytest.approx(1)
