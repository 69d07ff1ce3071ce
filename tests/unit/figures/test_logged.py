import pytest

from app.db.models import RunStatus
from app.figures.palette import of_lambda
from app.results.captions import describe_sample
from app.results.figures.sweep_curves import PENALTY, TASK_LOSS, CurveStyle, logged_curves, smooth
from isotropy.catalog import Regularizer
from tests.unit.figures.rows import run, sweep

SWEEP = sweep(run(-1.0, 0), run(-1.0, 1), run(0.0, 0))
BY_RUN = {one.id: [(10, 0.7 + 0.1 * one.seed), (20, 0.5)] for one in SWEEP.runs}


def test_a_line_is_the_mean_over_the_seeds_of_a_setting_with_its_interval():
    figure = logged_curves(SWEEP, TASK_LOSS, BY_RUN)
    assert figure.table.columns == ["lambda", "step", "seeds", "task_loss_mean", "ci95_half_width"]
    assert figure.table.rows[0] == [-1, 10, 2, pytest.approx(0.75), pytest.approx(12.7062 * 0.05, rel=1e-4)]
    assert figure.table.rows[2:] == [[0, 10, 1, 0.7, None], [0, 20, 1, 0.5, None]]
    band, *lines = figure.draw().data
    assert band.fill == "toself"
    assert [(line.line.color, list(line.y)) for line in lines] == [
        (of_lambda(-1), [pytest.approx(0.75), 0.5]), (of_lambda(0), [0.7, 0.5]),
    ]  # fmt: skip
    assert figure.caption == (
        "Task loss without the penalty. Means over seeds (n = 1 to 2) with 95% confidence intervals. "
        "As logged: no smoothing."
    )


def test_single_runs_are_drawn_and_listed_where_they_are_asked_for():
    figure = logged_curves(SWEEP, TASK_LOSS, BY_RUN, style=CurveStyle(seeds=True))
    assert figure.table.columns == ["lambda", "seed", "step", "task_loss"]
    assert figure.table.rows[2:4] == [[-1, 1, 10, pytest.approx(0.8)], [-1, 1, 20, 0.5]]
    traces = figure.draw().data
    assert [(trace.fill, trace.line.width, trace.showlegend) for trace in traces[:2]] == [(None, 0.6, False)] * 2
    assert len(traces) == 4
    first, _ = traces[:2]
    assert (list(first.x), list(first.y)) == ([10, 20, None, 10, 20], [0.7, 0.5, None, pytest.approx(0.8), 0.5])
    assert list(first.text) == ["λ = −1, seed 0"] * 2 + [""] + ["λ = −1, seed 1"] * 2
    assert "Thin lines are single runs." in figure.caption


def test_nothing_is_smoothed_unless_it_is_asked_for_and_said():
    curve = [(step, float(step == 3)) for step in range(7)]
    assert smooth(curve, 1) == curve
    assert [value for _, value in smooth(curve, 5)] == [0, 0.25, 0.2, 0.2, 0.2, 0.25, 0]
    (one,) = sweep(run()).runs
    figure = logged_curves(sweep(one), TASK_LOSS, {one.id: curve}, style=CurveStyle(window=5))
    assert figure.table.rows[1][3] == 0.25
    assert "Smoothed: each value is the mean of the 5 logged values around it." in figure.caption
    assert "no smoothing" not in figure.caption


def test_a_scale_is_logarithmic_where_all_values_are_above_zero():
    assert logged_curves(SWEEP, TASK_LOSS, BY_RUN, style=CurveStyle(log=True)).draw().layout.yaxis.type == "log"
    below = logged_curves(SWEEP, PENALTY, {key: [(10, -0.5)] for key in BY_RUN}, style=CurveStyle(log=True))
    assert below.draw().layout.yaxis.type is None
    assert "Some values are not above zero, so the scale stays linear." in below.caption


def test_the_axis_of_a_loss_ends_at_zero_unless_one_is_below():
    assert logged_curves(SWEEP, TASK_LOSS, BY_RUN).draw().layout.yaxis.rangemode == "nonnegative"
    below = {one.id: [(10, 0.1), (20, -0.1)] for one in SWEEP.runs}
    assert logged_curves(SWEEP, TASK_LOSS, below).draw().layout.yaxis.rangemode is None
    assert logged_curves(SWEEP, PENALTY, BY_RUN).draw().layout.yaxis.rangemode is None


def test_what_part_of_the_values_is_shown_is_said():
    assert describe_sample(20, 20, 1, "looks") == ""
    said = " 1,980 of 198,000 logged values are shown: of every 500 steps the last."
    assert describe_sample(1980, 198_000, 500, "logged values") == said
    assert logged_curves(SWEEP, TASK_LOSS, BY_RUN, said).caption.endswith(said)


def test_of_many_settings_the_intervals_are_in_the_numbers():
    many = sweep(*(run(float(lam), seed) for lam in range(9) for seed in (0, 1)))
    figure = logged_curves(many, TASK_LOSS, {one.id: [(10, 0.1 * one.seed)] for one in many.runs})
    assert [trace.fill for trace in figure.draw().data] == [None] * 9
    assert "The intervals are in the table" in figure.caption
    assert figure.table.rows[0][-1] == pytest.approx(12.7062 * 0.05, rel=1e-4)


def test_of_several_methods_a_colour_is_a_method_and_a_line_says_its_setting():
    runs = [run(0.0), run(1.0), run(-1.0, regularizer=Regularizer.COSREG), run(1.0, regularizer=Regularizer.COSREG)]
    plot = logged_curves(sweep(*runs), TASK_LOSS, {one.id: [(10, 0.7), (20, 0.5)] for one in runs}).draw()
    assert [trace.name for trace in plot.data] == ["CosReg, λ = −1", "none", "I-STAR, λ = 1", "CosReg, λ = 1"]
    assert "CosReg, λ = −1" in plot.data[0].hovertemplate


def test_runs_that_have_logged_nothing_leave_the_figure_empty():
    assert "curves begin" in logged_curves(sweep(run(status=RunStatus.RUNNING)), TASK_LOSS, {}).empty
    assert logged_curves(sweep(run()), TASK_LOSS, {}).empty == "No run logged a task loss."
