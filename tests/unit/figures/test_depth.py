import pytest

from app.db.models import RunStatus
from app.results.figures.profiles import measure_by_layer
from tests.unit.figures.rows import run, sweep

SWEEP = sweep(*(run(lam, seed) for lam in (0.0, 1.0) for seed in (0, 1)))


def of(*values, n=872, reasons=()):
    return {"values": list(values), "reasons": list(reasons) or [None] * len(values), "n": n}


def test_a_line_is_the_mean_over_seeds_by_layer_with_its_interval():
    figure = measure_by_layer(SWEEP, {one.id: of(9.0, 10.0 + one.seed) for one in SWEEP.runs}, "twonn")
    line = figure.draw().data[1]
    assert (line.name, list(line.x), list(line.y)) == ("λ = 1", [1, 2], [9.0, 10.5])
    assert list(line.error_y.array) == [0.0, pytest.approx(12.7062 * 0.5, rel=1e-4)]
    assert figure.table.columns == ["lambda", "layer", "seeds", "twonn_mean", "ci95_half_width"]
    assert figure.table.rows[:2] == [[0, 1, 2, 9.0, 0.0], [0, 2, 2, 10.5, pytest.approx(6.3531, rel=1e-4)]]
    assert "872 validation rows" in figure.caption
    assert "(n = 2)" in figure.caption


def test_a_layer_without_a_value_is_a_gap_and_a_run_without_the_measure_is_left_out():
    first, second, *_ = SWEEP.runs
    figure = measure_by_layer(SWEEP, {first.id: of(None, 8.0), second.id: of(None, 6.0, n=800)}, "twonn")
    assert figure.table.rows == [[0, 1, 0, None, None], [0, 2, 2, 7.0, pytest.approx(12.7062, rel=1e-4)]]
    assert "800 to 872 validation rows" in figure.caption


def test_one_run_is_told_without_seeds():
    alone = sweep(run(1.0))
    figure = measure_by_layer(alone, {alone.runs[0].id: of(9.0, n=None)}, "twonn")
    assert figure.caption == "By layer, of the sentence vectors. Range: (0, ∞)."
    assert figure.draw().layout.showlegend is False


def test_an_empty_figure_says_why():
    (first, *_) = SWEEP.runs
    undefined = {first.id: of(None, reasons=["All points are one."])}
    assert measure_by_layer(SWEEP, undefined, "twonn").empty == "It is undefined in every layer: All points are one."
    assert measure_by_layer(SWEEP, {}, "twonn").empty == "It was not measured."
    waiting = sweep(run(1.0, status=RunStatus.QUEUED))
    assert "first run has finished" in measure_by_layer(waiting, {}, "twonn").empty
