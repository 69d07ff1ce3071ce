from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.db.models import RunStatus
from app.figures.palette import METHODS, SERIES, of_lambda
from app.results.figures.scatter import RING, RUN
from app.results.figures.scatter_points import ScatterStyle
from app.results.statistics.estimate import Error
from isotropy.catalog import Regularizer
from tests.unit.figures.rows import isotropy_performance, lambda_performance, run, sweep

SWEEP = [
    run(lam, seed, performance=0.8 + 0.01 * seed - 0.02 * abs(lam), isoscore_star=0.3 + 0.1 * lam + 0.01 * seed)
    for lam in (1.0, -1.0, 0.0)
    for seed in (0, 1)
]


def markers(figure):
    return markers_of(figure.draw())


def markers_of(plot):
    return [trace for trace in plot.data if trace.error_y.visible is not None]


def test_each_lambda_is_one_point_at_the_means_of_its_seeds():
    points = markers(isotropy_performance(sweep(*SWEEP), "accuracy"))
    assert [trace.x[0] for trace in points] == pytest.approx([0.205, 0.305, 0.405])
    assert [trace.y[0] for trace in points] == pytest.approx([0.785, 0.805, 0.785])
    assert [trace.marker.color for trace in points] == [of_lambda(lam) for lam in (-1, 0, 1)]


def test_both_axes_have_the_interval_of_two_seeds():
    point = markers(isotropy_performance(sweep(*SWEEP), "accuracy"))[0]
    assert point.error_y.array[0] == pytest.approx(12.7062 * 0.005, rel=1e-4)
    assert point.error_x.array[0] == pytest.approx(12.7062 * 0.005, rel=1e-4)


def test_lambda_stands_at_equal_steps_with_zero_marked():
    plot = lambda_performance(sweep(*(run(lam) for lam in (-5.0, 0.0, 0.5, 3.0))), "f1").draw()
    assert list(plot.layout.xaxis.ticktext) == ["−5", "0", "0.5", "3"]
    assert list(plot.layout.xaxis.tickvals) == [0, 1, 2, 3]
    across, down = plot.layout.shapes
    assert (across.y0, across.y1) == (0.8, 0.8)
    assert (down.x0, down.x1) == (1, 1)
    assert plot.layout.yaxis.title.text == "F1"


def test_one_seed_has_no_error_bar_and_the_caption_says_why():
    figure = isotropy_performance(sweep(run(1.0), run(0.0)), "accuracy")
    assert [point.error_y.visible for point in markers(figure)] == [False, False]
    assert "n = 1 seed" in figure.caption


def test_the_caption_prints_n_and_the_kind_of_interval():
    caption = isotropy_performance(sweep(*SWEEP, run(3.0)), "accuracy").caption
    assert "n = 1 to 2" in caption
    assert "95%" in caption


def test_runs_that_are_there_twice_are_means_of_two_seeds_with_the_same_interval():
    once, twice = (isotropy_performance(sweep(*SWEEP * often), "accuracy") for often in (1, 2))
    assert "means over seeds (n = 2)" in twice.caption
    assert twice.table.rows == once.table.rows


def test_the_table_tells_how_many_seeds_have_each_value():
    figure = lambda_performance(sweep(run(0.0), run(0.0, 1), run(0.0, 2, isoscore_star=None)), "accuracy")
    (row,) = figure.table.rows
    told = dict(zip(figure.table.columns, row, strict=True))
    assert (told["performance_seeds"], told["isoscore_star_seeds"]) == (3, 2)


def test_seeds_are_drawn_and_tabled_on_demand():
    figure = isotropy_performance(sweep(*SWEEP), "accuracy", ScatterStyle(seeds=True))
    runs = [trace for trace in figure.draw().data if trace.marker.size == RUN]
    assert sum(len(trace.x) for trace in runs) == 6
    reasons = ["performance_reason", "isoscore_star", "isoscore_star_reason"]
    assert figure.table.columns == ["lambda", "seed", "performance", *reasons]
    assert len(figure.table.rows) == 6


def test_only_finished_runs_count():
    unfinished = run(1.0, 2, performance=None, isoscore_star=None, status=RunStatus.RUNNING)
    table = isotropy_performance(sweep(*SWEEP, unfinished), "accuracy").table
    assert [row[:2] for row in table.rows] == [[-1.0, 2], [0.0, 2], [1.0, 2]]


def test_a_run_without_isotropy_is_left_out_of_that_view_only():
    runs = [run(0.0), run(1.0, isoscore_star=None)]
    (point,) = isotropy_performance(sweep(*runs, run(0.0, 1, isoscore_star=None)), "accuracy").table.rows
    assert point[:3] == [0.0, 1, 0.8]
    assert len(lambda_performance(sweep(*runs), "accuracy").table.rows) == 2


UNDEFINED = [run(1.0, seed, performance=None, performance_reason="All predictions are equal.") for seed in (2, 3)]


@pytest.mark.parametrize("figure_of", [isotropy_performance, lambda_performance])
def test_runs_without_a_performance_are_counted_with_their_reason_and_stay_among_the_seeds(figure_of):
    figure = figure_of(sweep(*SWEEP, *UNDEFINED), "accuracy", ScatterStyle(seeds=True))
    told = "Not drawn, because performance is undefined: 2 runs. All predictions are equal."
    assert figure.caption.endswith(told)
    assert [row[:4] for row in figure.table.rows if row[2] is None] == [
        [1.0, seed, None, "All predictions are equal."] for seed in (2, 3)
    ]
    assert [row[1] for row in figure_of(sweep(*SWEEP, *UNDEFINED), "accuracy").table.rows] == [2, 2, 2]
    assert figure_of(sweep(*UNDEFINED), "accuracy").empty == told


@pytest.mark.parametrize("figure_of", [isotropy_performance, lambda_performance])
def test_points_that_a_study_flatters_are_named(figure_of):
    runs = [run(0.0), run(1.0, 0, 0.99), run(1.0, 1, None, None, RunStatus.PRUNED)]
    assert figure_of(sweep(*runs), "accuracy").caption.endswith(
        "Read with care, because the study pruned some of their runs, and the finished ones overstate them: λ = 1."
    )
    assert "with care" not in figure_of(sweep(*runs[:2]), "accuracy").caption


def test_an_empty_figure_says_what_will_come_or_that_nothing_will():
    waiting = run(performance=None, status=RunStatus.QUEUED)
    assert "first run has finished" in isotropy_performance(sweep(waiting), "accuracy").empty
    failed = run(performance=None, status=RunStatus.FAILED)
    assert "nothing to plot" in lambda_performance(sweep(failed), "accuracy").empty


def test_the_version_changes_with_the_numbers_and_only_then():
    version = isotropy_performance(sweep(*SWEEP), "accuracy").version
    assert isotropy_performance(sweep(*SWEEP), "accuracy").version == version
    assert isotropy_performance(sweep(*SWEEP, run(3.0)), "accuracy").version != version


def test_several_zetas_are_lines_that_meet_at_the_baseline_with_a_legend():
    runs = [run(lam, zeta=zeta, isoscore_star=0.2 + lam / 10 + zeta) for lam in (-1.0, 1.0) for zeta in (0.2, 0.8)]
    figure = isotropy_performance(sweep(run(0.0), *runs), "accuracy")
    plot = figure.draw()
    (line,) = (trace for trace in plot.data if trace.mode == "lines")
    assert line.x[3] is None
    assert (line.x[:3], line.x[4:]) == (pytest.approx((0.3, 0.2, 0.5)), pytest.approx((0.9, 0.2, 1.1)))
    legend = [(trace.name, trace.marker.symbol) for trace in plot.data if trace.showlegend]
    assert legend == [("ζ = 0.2", "circle"), ("ζ = 0.8", "square")]
    assert [row[:2] for row in figure.table.rows] == [[-1, 0.2], [-1, 0.8], [0, None], [1, 0.2], [1, 0.8]]
    assert "Lines connect" in figure.caption


def test_at_one_lambda_the_points_of_several_methods_stand_side_by_side():
    methods = (Regularizer.ISTAR, Regularizer.COSREG)
    runs = [run(0.0), *(run(1.0, regularizer=method) for method in methods)]
    plot = lambda_performance(sweep(*runs), "accuracy").draw()
    points = [(trace.x[0], trace.marker.color) for trace in markers(lambda_performance(sweep(*runs), "accuracy"))]
    assert points == [(0, of_lambda(0)), (0.875, METHODS[methods[0]]), (1.125, METHODS[methods[1]])]
    assert list(plot.layout.xaxis.ticktext) == ["0", "1"]


def test_of_many_points_plain_training_alone_is_named_and_the_legend_has_some_colours():
    few, many = (
        isotropy_performance(sweep(*(run(float(lam), isoscore_star=lam / n) for lam in range(n))), "accuracy").draw()
        for n in (4, 25)
    )
    named = [
        [text for trace in plot.data if trace.mode == "markers+text" for text in trace.text] for plot in (few, many)
    ]
    assert named == [[f"λ = {lam}" for lam in range(4)], ["λ = 0"]]
    assert [trace.name for trace in few.data if trace.showlegend] == []
    assert [trace.name for trace in many.data if trace.showlegend] == [
        f"λ = {lam}" for lam in (0, 3, 7, 10, 14, 17, 21, 24)
    ]


def test_a_thousand_points_are_as_many_traces_as_colours():
    models = [f"m{i}" for i in range(4)]
    runs = [run(lam / 10, 0, model=model) for lam in range(-50, 50) for model in models]
    plot = isotropy_performance(sweep(*runs, model=models), "accuracy", ScatterStyle(seeds=True, colour="model")).draw()
    assert len(markers_of(plot)) == 4
    assert sum(len(trace.x) for trace in markers_of(plot)) == 400
    assert len(plot.data) <= 20


@pytest.mark.parametrize(("error", "factor"), [(Error.CI95, 12.7062), (Error.SE, 1), (Error.STD, 2**0.5)])
def test_error_bars_are_what_was_chosen_in_plot_table_and_words(error, factor):
    figure = isotropy_performance(sweep(*SWEEP), "accuracy", ScatterStyle(error=error))
    point = markers(figure)[0]
    assert point.error_y.array[0] == pytest.approx(factor * 0.005, rel=1e-4)
    assert point.error_x.array[0] == pytest.approx(factor * 0.005, rel=1e-4)
    assert figure.table.columns[3] == f"performance_{error.column}"
    assert figure.table.rows[0][3] == pytest.approx(factor * 0.005, rel=1e-4)
    assert error.description in figure.caption


@settings(deadline=None, max_examples=25)
@given(
    st.lists(
        st.tuples(st.floats(-1, 1), st.floats(0, 1), st.sampled_from([-1.0, 0.0, 1.0]), st.integers(0, 3)),
        min_size=1,
        max_size=20,
        unique_by=lambda one: one[2:],
    ),
    st.sampled_from(Error),
)
def test_no_axis_cuts_off_a_point_a_run_or_an_error_bar_within_what_the_metric_can_be(places, error):
    runs = [run(lam, seed, performance=y, isoscore_star=x) for y, x, lam, seed in places]
    for figure_of in (isotropy_performance, lambda_performance):
        plot = figure_of(sweep(*runs), "matthews", ScatterStyle(seeds=True, error=error)).draw()
        for trace in plot.data:
            for axis, values, bars, least, most in (
                ("xaxis", trace.x, trace.error_x, -inf, inf),
                ("yaxis", trace.y, trace.error_y, -1, 1),
            ):
                low, high = plot.layout[axis].range
                widths = bars.array if bars.visible else [0] * len(values)
                for value, width in zip(values, widths, strict=True):
                    ends = value is not None and (max(value - (width or 0), least), min(value + (width or 0), most))
                    assert not ends or (low < ends[0] and ends[1] < high)


def test_an_axis_shows_no_accuracy_that_there_cannot_be():
    runs = [run(1.0, seed, performance=performance) for seed, performance in enumerate((0.2, 0.95))]
    plot = isotropy_performance(sweep(*runs), "accuracy").draw()
    assert any(trace.error_y.array and max(trace.error_y.array) > 1 for trace in plot.data)
    low, high = plot.layout.yaxis.range
    assert -0.05 < low < 0
    assert 1 < high < 1.05


def test_lambdas_that_a_search_chose_keep_their_distances():
    runs = [run(lam, study={"over": True}) for lam in (0.0, 0.5, 0.625, 3.0)]
    plot = lambda_performance(sweep(*runs), "accuracy").draw()
    assert plot.layout.xaxis.tickvals is None
    assert {0.0, 0.5, 0.625, 3.0} <= {x for trace in plot.data for x in (trace.x or ())}


def test_points_are_coloured_by_what_was_chosen_and_by_the_usual_where_that_does_not_vary():
    models = ["tiny-bert", "tiny-gpt"]
    runs = sweep(*(run(lam, model=model) for lam in (0.0, 1.0) for model in models), model=models)
    plot = isotropy_performance(runs, "accuracy", ScatterStyle(colour="model")).draw()
    assert [trace.marker.color for trace in markers_of(plot)] == [*SERIES[:2]]
    assert [trace.name for trace in plot.data if trace.showlegend] == ["tiny-bert", "tiny-gpt"]
    usual = isotropy_performance(runs, "accuracy", ScatterStyle(colour="zeta")).draw()
    assert [trace.marker.color for trace in markers_of(usual)] == [of_lambda(0), of_lambda(1)]


def test_plain_training_has_a_ring_whatever_the_colours_stand_for():
    plot = isotropy_performance(sweep(*SWEEP), "accuracy").draw()
    (ring,) = (trace for trace in plot.data if trace.marker.size == RING)
    assert (ring.x, ring.y) == ((pytest.approx(0.305),), (pytest.approx(0.805),))
    assert [shape.y0 for shape in plot.layout.shapes] == [pytest.approx(0.805)]
