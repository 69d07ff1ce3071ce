import pytest
from scipy import stats

from app.core.evidence import BLOCK_KURTOSIS, block_degrees
from app.results.statistics.estimate import ErrorBar, average_by_seed, estimate, tail_mean


def test_block_degrees_match_variance_of_error():
    """The variance of a sample variance of B values with excess kurtosis k is sigma^4 (2 / (B - 1) + k / B)."""
    assert 2 / block_degrees(10) == pytest.approx(2 / 9 + BLOCK_KURTOSIS / 10)


def test_interval_is_students_t_and_single_value_has_none():
    values = [0.81, 0.84, 0.79, 0.86, 0.82]
    estimated = estimate(values)
    low, high = stats.t.interval(0.95, 4, loc=estimated.mean, scale=stats.sem(values))
    assert estimated.n == 5
    assert estimated.mean - estimated.half_width == pytest.approx(low, rel=1e-4)
    assert estimated.mean + estimated.half_width == pytest.approx(high, rel=1e-4)
    estimated = estimate([0.5])
    assert (estimated.mean, estimated.half_width, estimated.n) == (0.5, None, 1)
    assert estimate([0.5, 0.5, 0.5]).half_width == 0


@pytest.mark.parametrize("factor", [1e-200, 1.0, 1e200])
def test_interval_does_not_overflow(factor):
    values = [0.81, 0.84, 0.79]
    assert estimate([factor * x for x in values]).half_width == pytest.approx(factor * estimate(values).half_width)
    assert estimate([factor, 2 * factor], ErrorBar.STD).half_width == pytest.approx(factor / 2**0.5)


def test_seed_counts_once_and_tail_mean_skips_missing_values():
    assert list(average_by_seed([(2, 0.5), (1, 0.25), (1, 0.75), (2, 0.5)]).items()) == [(1, 0.5), (2, 0.5)]
    assert tail_mean([(0, 9.0), (69, 9.0), (70, 1.0), (90, None), (100, 2.0)], 100) == 1.5
    assert tail_mean([(0, 9.0), (60, 1.0)], 100) is None
    assert tail_mean([], 100) is None
