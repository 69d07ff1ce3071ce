from math import sqrt

import pytest

from app.db.models import RunStatus
from app.results.figures.profiles import activation_profiles
from tests.unit.figures.rows import run, sweep


def of(*mean, std=1.0, n=40):
    return {"n": n, "mean": list(mean), "std": [std] * len(mean)}


def test_one_run_has_a_band_of_one_standard_deviation():
    alone = sweep(run(1.0))
    figure = activation_profiles(alone, {alone.runs[0].id: of(0.5, -2.0, std=0.25)})
    low, high, line = figure.draw().data
    assert (list(low.y), list(high.y), list(line.y)) == ([0.25, -2.25], [0.75, -1.75], [0.5, -2.0])
    assert figure.table.columns == ["dimension", "mean", "standard_deviation"]
    assert list(figure.table.rows) == [[0, 0.5, 0.25], [1, -2.0, 0.25]]
    assert "n = 40 validation rows." in figure.caption


def test_seeds_are_averaged_and_settings_overlaid_without_bands():
    runs = sweep(run(0.0, 0), run(0.0, 1), run(1.0))
    found = [of(1.0, std=1.0), of(2.0, std=2.0, n=30), of(5.0)]
    figure = activation_profiles(runs, {one.id: data for one, data in zip(runs.runs, found, strict=True)})
    assert [(trace.name, list(trace.y)) for trace in figure.draw().data] == [("λ = 0", [1.5]), ("λ = 1", [5.0])]
    assert figure.table.columns[1:3] == ["mean: λ = 0", "standard_deviation: λ = 0"]
    assert list(figure.table.rows) == [[0, 1.5, pytest.approx(sqrt(2.5)), 5.0, 1.0]]
    assert "n = 30 validation rows; averaged over seeds (n = 1 to 2). The table" in figure.caption


def test_models_of_unequal_width_stand_beside_each_other():
    runs = sweep(run(0.0, model="narrow"), run(0.0, model="wide"), model=["narrow", "wide"])
    found = [of(1.0), of(2.0, 3.0)]
    figure = activation_profiles(runs, {one.id: data for one, data in zip(runs.runs, found, strict=True)})
    assert list(figure.table.rows) == [[0, 1.0, 1.0, 2.0, 1.0], [1, None, None, 3.0, 1.0]]
    assert figure.draw().layout.xaxis.range == (-0.5, 1.5)


def test_a_seed_that_was_run_twice_counts_once():
    runs = sweep(run(0.0, 0, batch_size=8), run(0.0, 0, batch_size=32), run(0.0, 1))
    found = [of(1.0, std=1.0), of(3.0, std=3.0), of(6.0, std=5.0)]
    figure = activation_profiles(runs, {one.id: data for one, data in zip(runs.runs, found, strict=True)})
    assert list(figure.table.rows) == [[0, 4.0, pytest.approx(sqrt((5 + 25) / 2))]]
    assert "averaged over seeds (n = 2)." in figure.caption


def test_dimensions_of_models_of_unequal_width_are_never_in_one_mean():
    runs = sweep(run(0.0, model="narrow"), run(0.0, model="wide"), run(1.0))
    found = {one.id: data for one, data in zip(runs.runs, [of(1.0), of(2.0, 3.0), of(4.0)], strict=True)}
    told = "Not drawn, because their models have different numbers of dimensions: λ = 0. Group by model to draw them."
    figure = activation_profiles(runs, found)
    assert figure.table.columns == ["dimension", "mean", "standard_deviation"]
    assert list(figure.table.rows) == [[0, 4.0, 1.0]]
    assert figure.caption.endswith(told)
    assert activation_profiles(sweep(*runs.runs[:2]), found).empty == told


def test_without_data_it_says_whether_some_will_come():
    assert "first run has finished" in activation_profiles(sweep(run(status=RunStatus.RUNNING)), {}).empty
    figure = activation_profiles(sweep(run()), {})
    assert (figure.empty, figure.version) == ("No run stored the activation of its dimensions.", figure.version)
