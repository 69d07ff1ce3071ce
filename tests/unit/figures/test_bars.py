import pytest

from app.db.models import RunStatus
from app.figures.palette import METHODS, of_lambda
from app.results.figures.baseline import method_bars
from isotropy.catalog import Regularizer
from tests.unit.figures.rows import run, sweep

COSREG = Regularizer.COSREG


def test_a_bar_is_the_best_setting_of_a_method_on_a_side_of_zero():
    runs = [run(lam, seed, performance=0.8 - 0.01 * abs(lam) + 0.02 * seed) for lam in (-3.0, -1.0, 0.0, 1.0)
            for seed in (0, 1)]  # fmt: skip
    figure = method_bars(sweep(*runs, run(1.0, regularizer=COSREG, performance=0.7)), "accuracy")
    assert [row[:6] for row in figure.table.rows] == [
        ["I-STAR, λ < 0", "I-STAR", -1.0, 2, 2, pytest.approx(0.8)],
        ["none", "none", 0.0, 1, 2, pytest.approx(0.81)],
        ["I-STAR, λ > 0", "I-STAR", 1.0, 1, 2, pytest.approx(0.8)],
        ["CosReg, λ > 0", "CosReg", 1.0, 1, 1, 0.7],
    ]
    plot = figure.draw()
    assert [trace.x[0] for trace in plot.data] == pytest.approx([0.8, 0.81, 0.8, 0.7])
    assert [trace.marker.color for trace in plot.data] == [
        METHODS[Regularizer.ISTAR], of_lambda(0), METHODS[Regularizer.ISTAR], METHODS[COSREG],
    ]  # fmt: skip
    assert list(plot.layout.yaxis.ticktext) == [
        "I-STAR, λ < 0<br>λ = −1", "none", "I-STAR, λ = 1", "CosReg, λ = 1",
    ]  # fmt: skip
    assert [trace.error_x.visible for trace in plot.data] == [True, True, True, False]


def test_a_seed_that_was_run_twice_is_one_seed_of_the_table():
    runs = [run(1.0, 0, 0.25), run(1.0, 0, 0.75, batch_size=32)]
    table = method_bars(sweep(*runs), "accuracy").table
    assert [dict(zip(table.columns, row, strict=True))["seeds"] for row in table.rows] == [1]


def test_a_best_that_was_chosen_on_these_rows_is_said_to_flatter():
    caption = method_bars(sweep(run(-3.0), run(-1.0), run(0.0)), "accuracy").caption
    assert "best of up to 2 settings, chosen on the same rows" in caption
    assert "chosen" not in method_bars(sweep(run(-1.0), run(0.0)), "accuracy").caption


def test_bars_begin_at_zero_and_a_negative_one_has_room():
    plot = method_bars(sweep(run(0.0, performance=-0.2), run(1.0, performance=0.5)), "matthews").draw()
    assert plot.layout.xaxis.title.text == "Matthews correlation (−1 to 1)"
    low, high = plot.layout.xaxis.range
    assert low < -0.2 < 0.5 < high
    assert method_bars(sweep(run(0.0, performance=0.0)), "matthews").draw().layout.xaxis.range == (0, 1)


def test_a_number_stands_beyond_the_end_of_its_bar_and_interval_on_the_side_that_it_points_to():
    runs = [run(lam, seed, performance=sign * (0.3 + 0.02 * seed))
            for lam, sign in ((0.0, -1), (1.0, 1)) for seed in (0, 1)]  # fmt: skip
    plot = method_bars(sweep(*runs), "matthews").draw()
    assert [(note.text.strip(), note.xanchor) for note in plot.layout.annotations] == [
        ("−0.310", "right"), ("0.310", "left"),
    ]  # fmt: skip
    left, right = (note.x for note in plot.layout.annotations)
    assert (left, right) == (pytest.approx(-0.31 - 12.7062 * 0.01, rel=1e-4), pytest.approx(-left))
    low, high = plot.layout.xaxis.range
    assert left - low == pytest.approx(high - right) == pytest.approx(0.22 * (right - left))


def test_without_a_finished_run_there_is_no_bar():
    assert "first run has finished" in method_bars(sweep(run(performance=None, status=RunStatus.QUEUED)), "f1").empty


def test_runs_without_a_performance_are_counted_and_are_no_reason_to_say_that_none_has_finished():
    undefined = run(1.0, performance=None, performance_reason="All predictions are equal.")
    told = "Not drawn, because performance is undefined: 1 run. All predictions are equal."
    assert method_bars(sweep(run(0.0), undefined), "accuracy").caption.endswith(told)
    assert method_bars(sweep(undefined), "accuracy").empty == told


def test_a_setting_of_which_a_study_gave_up_a_run_is_no_bar_and_is_named():
    survivor, given_up = run(1.0, 0, 0.99), run(1.0, 1, None, status=RunStatus.PRUNED)
    figure = method_bars(sweep(run(0.0), run(2.0, performance=0.7), survivor, given_up), "accuracy")
    assert [row[1:4] for row in figure.table.rows] == [[0.0, 1, 1], [2.0, 1, 1]]
    told = "Left out, because the study pruned some of their runs, and the finished ones overstate them: λ = 1."
    assert figure.caption.endswith(told)
    assert method_bars(sweep(survivor, given_up), "accuracy").empty == told


def test_intervals_are_told_only_where_there_are_several_seeds():
    alone = method_bars(sweep(run(0.0), run(1.0)), "accuracy").caption
    assert alone == "Each is one run (n = 1 seed); an interval needs two seeds or more."
    pairs = method_bars(sweep(*(run(lam, seed) for lam in (0.0, 1.0) for seed in (0, 1))), "accuracy").caption
    assert pairs.startswith("Means over seeds (n = 2) with 95% confidence intervals.")
