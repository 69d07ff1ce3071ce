import pytest

from app.figures import learning
from app.figures.palette import of_lambda
from tests.unit.figures.rows import run, step

LOGGED = [
    step(0, layers={"isoscore_star": [0.3, 0.2]}),
    step(10, 0.7, -0.5, {"isoscore_star": [0.31, None]}),
    step(20, 0.5, -0.6),
]


def test_each_run_is_a_line_in_the_colour_of_its_lambda():
    runs = [run(-1.0, 0), run(-1.0, 1), run(0.0, 0)]
    plot = learning.losses(runs, {one.id: LOGGED for one in runs}).draw()
    assert [trace.line.color for trace in plot.data] == [of_lambda(-1), of_lambda(-1), of_lambda(0)]
    assert [list(trace.y) for trace in plot.data] == [[0.7, 0.5]] * 3
    assert [trace.showlegend for trace in plot.data] == [True, False, True]


def test_runs_that_have_logged_nothing_leave_the_figure_empty():
    assert "begin here" in learning.losses([run()], {}).empty


def test_the_curves_of_a_run_leave_out_steps_without_a_value():
    one = run(1.0, steps=LOGGED)
    assert learning.loss(one).table.rows == [[10, 0.7], [20, 0.5]]
    assert learning.penalty(one).table.rows == [[10, -0.5], [20, -0.6]]


def test_isotropy_is_a_line_for_each_layer_with_a_gap_where_it_is_undefined():
    figure = learning.layers(run(1.0, steps=LOGGED))
    assert figure.table.columns == ["step", "layer_1", "layer_2"]
    assert [list(trace.y) for trace in figure.draw().data] == [[0.3, 0.31], [0.2, None]]


@pytest.mark.parametrize("make", [learning.loss, learning.penalty, learning.layers])
def test_a_run_that_has_not_begun_says_what_will_appear(make):
    assert "here" in make(run()).empty
