import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from app.core.evidence import t_quantile
from app.results.statistics.mean_difference import Spread, over_rows_and_seeds, over_seeds
from app.results.statistics.verdict import Verdict, half_width, holm, judge, tail


def seeds(*values):
    return over_seeds(np.array(values))


def test_the_designs_of_the_papers_can_be_decided():
    drop = seeds(-0.19, -0.15, -0.23, -0.17, -0.21)
    other_differences = [seeds(0.01, -0.01, 0.02, -0.02, 0.005) for _ in range(5)]
    judgments = judge([drop, *other_differences])
    assert judgments[0].verdict is Verdict.WORSE
    assert {judgment.verdict for judgment in judgments[1:]} == {Verdict.NONE_SEEN}
    assert judgments[0].p == pytest.approx(stats.ttest_1samp([-0.19, -0.15, -0.23, -0.17, -0.21], 0).pvalue)
    assert judgments[0].p_adjusted == pytest.approx(6 * judgments[0].p)


def test_below_three_seeds_it_is_always_too_few_and_equal_differences_never_have_p_0():
    too_few, enough = judge([seeds(0.5, 0.51), seeds(0.5, 0.51, 0.52)])
    assert (too_few.verdict, too_few.low, too_few.p) == (Verdict.TOO_FEW, None, None)
    assert (enough.verdict, enough.comparisons) == (Verdict.BETTER, 1)
    judgments = judge([seeds(0.1, 0.1, 0.1), seeds(0.5, 0.51, 0.52)])
    assert (judgments[0].verdict, judgments[0].p) == (Verdict.TOO_FEW, None)
    same = judge([over_rows_and_seeds(np.zeros((50, 3)))])[0]
    assert (same.verdict, same.p) == (Verdict.NONE_SEEN, 1.0)


@pytest.mark.slow
def test_verdict_and_interval_never_disagree():
    random = np.random.default_rng(0)
    for _ in range(60):
        family = [over_rows_and_seeds(random.normal(size=(20, 4)) + random.normal() * 0.4) for _ in range(3)]
        for judgment in judge(family):
            outside = judgment.low > 0 or judgment.high < 0
            assert (judgment.verdict is not Verdict.NONE_SEEN) == outside == (judgment.p_adjusted <= 0.05)
            assert (judgment.verdict is Verdict.BETTER) == (judgment.low > 0)


def test_what_would_show_the_difference_is_told_in_seeds():
    judgment = judge([seeds(0.02, -0.01, 0.04, 0.0, 0.03)])[0]
    n = judgment.needed.seeds
    error, threshold = np.std([0.02, -0.01, 0.04, 0.0, 0.03], ddof=1), 0.016

    def reach(n):
        return (t_quantile(0.05, n - 1) + stats.t.ppf(0.8, n - 1)) * error / np.sqrt(n)

    assert reach(n) <= threshold < reach(n - 1)


def test_of_several_comparisons_the_seeds_needed_are_those_of_the_interval_that_decides():
    """Satterthwaite's alone says 4 seeds here: its interval is narrower where comparisons are several."""
    n_found = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        d = random.normal(0, 0.3, (300, 3)) + random.normal(0, 0.02, 3) + 0.03
        judgment = judge([over_rows_and_seeds(d)] * 4)[0]
        if judgment.needed is None or judgment.needed.seeds is None:
            continue
        spread = judgment.difference.spread.expected_with(judgment.needed.seeds, 300)
        power = t_quantile(0.4, spread.degrees) * np.sqrt(spread.variance)
        assert abs(judgment.difference.estimate) >= half_width(0.05 / 4, spread) + power - 1e-9
        n_found += abs(judgment.difference.estimate) < half_width(0.05 / 4, spread) * 1.1 + power
    assert n_found > 5  # some are about as many as suffice


def test_where_rows_are_the_error_no_number_of_seeds_is_enough_and_rows_are_told():
    random = np.random.default_rng(1)
    rows = random.normal(size=(300, 1))
    d = rows - rows.mean() + 0.05 + 0.01 * random.normal(size=(300, 3))
    judgment = judge([over_rows_and_seeds(d)])[0]
    assert judgment.verdict is Verdict.NONE_SEEN
    assert judgment.needed.seeds is None
    assert judgment.needed.rows == pytest.approx((2.802 / 0.05) ** 2, rel=0.2)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(0, 1).map(lambda value: round(value, 4)), min_size=1, max_size=20))
def test_adjusted_p_values_are_those_of_statsmodels(p_values):
    assert holm(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]))


def test_the_smallest_is_multiplied_by_their_number_and_expected_squares_are_those_seen():
    assert holm([0.04, 0.01, 0.5]) == pytest.approx([0.08, 0.03, 0.5])
    assert holm([]) == []
    spread = Spread(10.0, 4.0, 1.0, 3, 30)
    assert spread.expected_with(3, 30) == pytest.approx(spread)


@pytest.mark.parametrize("seeds", [3, 4, 5, 20])
def test_where_seeds_are_all_the_error_it_is_students_t(seeds):
    spread = Spread(1.0, 1e-12, 1e-12, seeds, 100)
    error = (1 / (seeds * 100)) ** 0.5
    for p in (0.05, 0.01, 0.002):
        assert half_width(p, spread) == pytest.approx(stats.t.isf(p / 2, seeds - 1) * error, rel=1e-3)


def test_where_rows_are_all_the_error_it_is_the_normal_distribution():
    spread = Spread(0.0, 1.0, 0.0, 3, 100)
    assert half_width(0.01, spread) == pytest.approx(stats.norm.isf(0.005) / 300**0.5, rel=1e-3)
    spread = Spread(5.0, 3.0, 1.0, 3, 300)
    assert tail(half_width(0.0125, spread), spread) == pytest.approx(0.0125, rel=1e-5)
    assert tail(0.0, spread) == pytest.approx(1.0)
