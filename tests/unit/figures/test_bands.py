import pytest

from app.figures.palette import faded, of_lambda
from app.results.figures import sweep_curves
from tests.unit.figures.rows import run, sweep

SWEEP = sweep(*(run(lam, seed) for lam in (0.0, 1.0) for seed in (0, 1)))


def lines_of(*curves):
    return dict(zip(SWEEP.settings, map(sweep_curves.mean_curve, map(enumerate, curves)), strict=True))


def test_a_mean_is_over_the_runs_that_have_a_value_at_a_step():
    (first, second) = sweep_curves.mean_curve([(0, [(10, 0.5), (20, 0.7)]), (1, [(10, 0.7)])])
    assert (first[0], first[1].mean, first[1].n) == (10, pytest.approx(0.6), 2)
    assert (second[0], second[1].mean, second[1].n, second[1].half_width) == (20, 0.7, 1, None)


def test_a_band_is_the_interval_there_and_back_and_goes_with_its_line():
    lines = lines_of([[(10, 0.5), (20, 0.7)], [(10, 0.7), (20, 0.9)]], [[(10, 0.1), (20, 0.1)]])
    band, *drawn = sweep_curves.mean_traces(SWEEP, lines, bands=True)
    reach = 12.7062 * 0.1
    assert list(band.x) == [10, 20, 20, 10]
    assert list(band.y) == pytest.approx([0.6 - reach, 0.8 - reach, 0.8 + reach, 0.6 + reach], rel=1e-4)
    assert (band.fill, band.fillcolor, band.showlegend) == ("toself", faded(of_lambda(0), 0.16), False)
    assert [trace.legendgroup for trace in (band, *drawn)] == ["λ = 0", "λ = 0", "λ = 1"]
    assert [list(trace.y) for trace in drawn] == [pytest.approx([0.6, 0.8]), [0.1, 0.1]]


def test_a_band_stops_where_one_run_is_left_and_begins_again():
    pair = [[(step, 0.5) for step in range(5)], [(step, 0.7) for step in (0, 1, 3, 4)]]
    *parts, _, _ = sweep_curves.mean_traces(SWEEP, lines_of(pair, [[(0, 0.1)]]), bands=True)
    assert [list(part.x) for part in parts] == [[0, 1, 1, 0], [3, 4, 4, 3]]


def test_bands_are_for_several_seeds_of_a_few_settings():
    lines = lines_of([[(0, 0.5)], [(0, 0.7)]], [[(0, 0.1)]])
    assert sweep_curves.fit_as_bands(lines)
    assert not sweep_curves.fit_as_bands(lines_of([[(0, 0.5)]], [[(0, 0.1)]]))
    many = sweep(*(run(float(lam)) for lam in range(9)))
    (pair, _) = lines.values()
    assert not sweep_curves.fit_as_bands(dict.fromkeys(many.settings, pair))
    assert [trace.fill for trace in sweep_curves.mean_traces(SWEEP, lines, bands=False)] == [None, None]


def test_a_seed_that_was_run_twice_counts_once():
    ((_, found),) = sweep_curves.mean_curve([(0, [(10, 0.5)]), (0, [(10, 0.7)]), (1, [(10, 0.8)])])
    assert (found.mean, found.n) == (pytest.approx(0.7), 2)
