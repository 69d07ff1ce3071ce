import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from statsmodels.stats.anova import anova_lm

from app.results.statistics.mean_difference import Spread, over_rows, over_rows_and_seeds, over_seeds


def differences(rows=12, seeds=4):
    random = np.random.default_rng(3)
    return random.normal(size=(rows, seeds)) + random.normal(size=(rows, 1)) + 0.5 * random.normal(size=seeds) + 0.2


def test_by_hand_of_two_rows_and_three_seeds():
    difference = over_rows_and_seeds(np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 7.0]]))
    # Means of seeds 2, 2, 5 and of rows 2, 4 about 3; rest -1 1 0, 1 -1 ... so mean squares 6, 6 and 2.
    spread = difference.spread
    assert (difference.estimate, spread.of_seeds, spread.of_rows, spread.of_rest) == (3.0, 6.0, 6.0, 2.0)
    assert difference.error**2 == pytest.approx((6 + 6 - 2) / 6)
    assert difference.degrees == pytest.approx(10**2 / (6**2 / 2 + 6**2 / 1 + 2**2 / 2))


def test_mean_squares_are_those_of_statsmodels():
    d = differences()
    frame = pd.DataFrame([(r, s, d[r, s]) for r in range(12) for s in range(4)], columns=["row", "seed", "d"])
    mean_squares = anova_lm(smf.ols("d ~ C(seed) + C(row)", frame).fit())["mean_sq"]
    spread = over_rows_and_seeds(d).spread
    assert spread[:3] == pytest.approx(mean_squares.loc[["C(seed)", "C(row)", "Residual"]].tolist())


def test_the_variance_is_never_below_its_greatest_part_and_others_go_by_the_parts():
    assert Spread(0.0, 5.0, 2.0, 3, 10).variance == pytest.approx(5 / 30)
    assert Spread(1.0, 1.0, 4.0, 3, 10).variance == pytest.approx(4 / 30)
    spread = Spread(10.0, 4.0, 1.0, 3, 30)
    assert spread.between_seeds == pytest.approx(0.3)
    assert spread.between_rows == pytest.approx(1.0)
    assert spread.expected_with(6, 30) == pytest.approx(Spread(10.0, 7.0, 1.0, 6, 30))


def test_seeds_that_answer_alike_have_the_error_of_rows():
    column = np.array([1.0, 0, 0, 1, 0, -1, 0, 0, 1, 0])
    difference = over_rows_and_seeds(np.repeat(column[:, None], 3, axis=1))
    assert difference.error == pytest.approx(column.std(ddof=1) / np.sqrt(10))
    assert difference.degrees == pytest.approx(9)


def test_over_seeds_it_is_the_paired_t_test_and_over_rows_seeds_are_as_they_are():
    d = differences()[0]
    difference = over_seeds(d)
    test = stats.ttest_1samp(d, 0)
    assert (difference.estimate / difference.error, difference.degrees) == pytest.approx((test.statistic, test.df))
    d = differences()
    difference = over_rows(d)
    assert difference.error == pytest.approx(stats.sem(d.mean(axis=1)))
    assert difference.degrees == 11


def test_equal_differences_have_no_error_and_so_decide_nothing():
    assert over_seeds(np.array([0.1, 0.1, 0.1])).error is None
    assert over_seeds(np.array([0.3 - 0.2, 0.1, 0.8 - 0.7])).error is None
    assert over_seeds(np.array([0.1])).error is None
    assert over_rows_and_seeds(np.ones((200, 3))).error is None
    assert over_rows_and_seeds(np.zeros((200, 3))).error == 0
