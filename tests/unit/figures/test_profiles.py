from math import sqrt

import pytest

from app.db.models import RunStatus
from app.results.figures.profiles import activation_profiles, measure_by_layer
from tests.unit.figures.rows import T95, run, sweep

SWEEP = sweep(*(run(lam, seed) for lam in (0.0, 1.0) for seed in (0, 1)))
WAITING = sweep(run(1.0, status=RunStatus.QUEUED))


def profile(*mean, std=1.0, n=40):
    return {"n": n, "mean": list(mean), "std": [std] * len(mean)}


def profiles_of(table, *activations):
    data = {row.id: activation for row, activation in zip(table.runs, activations, strict=False)}
    return activation_profiles(table, data)


def layers(*values, n=872, reasons=()):
    return {"values": list(values), "reasons": list(reasons) or [None] * len(values), "n": n}


def test_profile_of_single_run_has_band():
    figure = profiles_of(sweep(run(1.0)), profile(0.5, -2.0, std=0.25))
    assert figure.table.columns == ["dimension", "mean", "standard_deviation"]
    assert list(figure.table.rows) == [[0, 0.5, 0.25], [1, -2.0, 0.25]]
    low, high, line = figure.draw().data
    assert (list(low.y), list(high.y), list(line.y)) == ([0.25, -2.25], [0.75, -1.75], [0.5, -2.0])
    assert "n = 40 validation rows." in figure.caption


def test_profiles_average_seeds_and_overlay_settings():
    figure = profiles_of(
        sweep(run(0.0, 0), run(0.0, 1), run(1.0)), profile(1.0), profile(2.0, std=2.0, n=30), profile(5.0)
    )
    assert figure.table.columns[1:3] == ["mean: λ = 0", "standard_deviation: λ = 0"]
    assert list(figure.table.rows) == [[0, 1.5, pytest.approx(sqrt(2.5)), 5.0, 1.0]]
    assert [trace.name for trace in figure.draw().data] == ["λ = 0", "λ = 1"]
    assert "n = 30 validation rows; averaged over seeds (n = 1 to 2). The table" in figure.caption
    repeated = sweep(run(0.0, 0, batch_size=8), run(0.0, 0, batch_size=32), run(0.0, 1))
    figure = profiles_of(repeated, profile(1.0), profile(3.0, std=3.0), profile(6.0, std=5.0))
    assert list(figure.table.rows) == [[0, 4.0, pytest.approx(sqrt((5 + 25) / 2))]]
    assert "averaged over seeds (n = 2)." in figure.caption


def test_models_of_different_width_are_not_averaged():
    runs = run(0.0, model="narrow"), run(0.0, model="wide"), run(1.0)
    by_model = profiles_of(sweep(*runs[:2], model=["narrow", "wide"]), profile(1.0), profile(2.0, 3.0))
    assert list(by_model.table.rows) == [[0, 1.0, 1.0, 2.0, 1.0], [1, None, None, 3.0, 1.0]]
    assert by_model.draw().layout.xaxis.range == (-0.5, 1.5)
    sentence = (
        "Not drawn, because their models have different numbers of dimensions: λ = 0. Group by model to draw them."
    )
    figure = profiles_of(sweep(*runs), profile(1.0), profile(2.0, 3.0), profile(4.0))
    assert list(figure.table.rows) == [[0, 4.0, 1.0]]
    assert figure.caption.endswith(sentence)
    assert profiles_of(sweep(*runs[:2]), profile(1.0), profile(2.0, 3.0)).empty == sentence


def test_figures_without_data_explain():
    (first, *_) = SWEEP.runs
    assert "first run has finished" in profiles_of(WAITING).empty
    assert profiles_of(sweep(run())).empty == "No run stored the activation of its dimensions."
    undefined = {first.id: layers(None, reasons=["All points are one."])}
    assert measure_by_layer(SWEEP, undefined, "twonn").empty == "It is undefined in every layer: All points are one."
    assert measure_by_layer(SWEEP, {}, "twonn").empty == "It was not measured."
    assert "first run has finished" in measure_by_layer(WAITING, {}, "twonn").empty


def test_measure_by_layer_averages_seeds_with_gaps():
    figure = measure_by_layer(SWEEP, {row.id: layers(9.0, 10.0 + row.seed) for row in SWEEP.runs}, "twonn")
    assert figure.table.columns == ["lambda", "layer", "seeds", "twonn_mean", "ci95_half_width"]
    half_width = pytest.approx(T95 * 0.5, rel=1e-4)
    assert figure.table.rows == [
        row for lam in (0, 1) for row in ([lam, 1, 2, 9.0, 0.0], [lam, 2, 2, 10.5, half_width])
    ]
    line = figure.draw().data[1]
    assert (line.name, list(line.y), list(line.error_y.array)) == ("λ = 1", [9.0, 10.5], [0.0, half_width])
    assert "872 validation rows" in figure.caption
    assert "(n = 2)" in figure.caption
    first, second, *_ = SWEEP.runs
    figure = measure_by_layer(SWEEP, {first.id: layers(None, 8.0), second.id: layers(None, 6.0, n=800)}, "twonn")
    assert figure.table.rows == [[0, 1, 0, None, None], [0, 2, 2, 7.0, pytest.approx(T95, rel=1e-4)]]
    assert "800 to 872 validation rows" in figure.caption
    single = sweep(run(1.0))
    figure = measure_by_layer(single, {single.runs[0].id: layers(9.0, n=None)}, "twonn")
    assert figure.caption == "By layer, of the sentence vectors. Range: (0, ∞)."
    assert figure.draw().layout.showlegend is False
