import pytest
from scipy import stats

from app.results.statistics.mean_difference import Spread
from app.results.statistics.verdict import half_width, tail


@pytest.mark.parametrize("seeds", [3, 4, 5, 20])
def test_where_seeds_are_all_the_error_it_is_students_t(seeds):
    spread = Spread(1.0, 1e-12, 1e-12, seeds, 100)
    error = (1 / (seeds * 100)) ** 0.5
    for p in (0.05, 0.01, 0.002):
        assert half_width(p, spread) == pytest.approx(stats.t.isf(p / 2, seeds - 1) * error, rel=1e-3)


def test_where_rows_are_all_the_error_it_is_the_normal_distribution():
    spread = Spread(0.0, 1.0, 0.0, 3, 100)
    assert half_width(0.01, spread) == pytest.approx(stats.norm.isf(0.005) / 300**0.5, rel=1e-3)


def test_tail_and_half_width_are_inverse():
    spread = Spread(5.0, 3.0, 1.0, 3, 300)
    assert tail(half_width(0.0125, spread), spread) == pytest.approx(0.0125, rel=1e-5)
    assert tail(0.0, spread) == pytest.approx(1.0)
