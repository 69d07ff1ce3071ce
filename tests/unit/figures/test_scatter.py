from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.db.models import RunStatus
from app.figures.palette import METHODS, QUIET, SERIES, lambda_color, ordered_color
from app.results.figures.scatter import RING_SIZE, RUN_SIZE, scatter
from app.results.figures.scatter_points import MAX_PANELS, ScatterStyle, list_measured_quantities
from app.results.run_table import MeasuredValue
from app.results.statistics.estimate import ErrorBar
from isoscope.core.errors import InvalidError
from isotropy.catalog import Regularizer
from tests.unit.figures.rows import T95, measured, run, sweep

ISTAR, COSREG = Regularizer.ISTAR, Regularizer.COSREG
AXES = pytest.mark.parametrize("x", ["isoscore_star", "lam"])
SWEEP = sweep(
    *(
        run(lam, seed, performance=0.8 + 0.01 * seed - 0.02 * abs(lam), isoscore_star=0.3 + 0.1 * lam + 0.01 * seed)
        for lam in (1.0, -1.0, 0.0)
        for seed in (0, 1)
    )
)
GRID = sweep(
    *(
        run(lam, seed, 0.7 + 0.01 * lam + 0.005 * seed, 0.2 + 0.1 * lam, batch_size=rows)
        for lam in (0.0, 1.0, 3.0)
        for rows in (8, 16)
        for seed in (0, 1)
    ),
    batch_size=[8, 16],
)
WAITING = run(performance=None, status=RunStatus.QUEUED)


def figure_of(table, metric="accuracy", **style):
    return scatter(table, metric, ScatterStyle(**style))


def by_x(table, x, **style):
    return figure_of(table, x=x, **style)


def plot_of(table, **style):
    return figure_of(table, **style).draw()


def means(plot):
    return [trace for trace in plot.data if trace.error_y.visible is not None]


def legend_names(plot):
    return [trace.name for trace in plot.data if trace.showlegend]


def test_point_is_mean_over_seeds_with_two_intervals():
    figure = figure_of(SWEEP)
    half_width = pytest.approx(T95 * 0.005, rel=1e-4)
    assert figure.table.columns == [
        "lambda", "performance_seeds", "performance_mean", "performance_ci95_half_width", "isoscore_star_seeds",
        "isoscore_star_mean", "isoscore_star_ci95_half_width",
    ]  # fmt: skip
    assert figure.table.rows == [
        [lam, 2, pytest.approx(y), half_width, 2, pytest.approx(x), half_width]
        for lam, y, x in ((-1, 0.785, 0.205), (0, 0.805, 0.305), (1, 0.785, 0.405))
    ]
    points = means(figure.draw())
    assert [(trace.x[0], trace.y[0]) for trace in points] == [(row[5], row[2]) for row in figure.table.rows]
    assert points[0].error_x.array[0] == points[0].error_y.array[0] == half_width
    assert [trace.marker.color for trace in points] == [lambda_color(lam) for lam in (-1, 0, 1)]


def test_lambda_axis_has_equal_steps_unless_searched_or_scaled():
    lams = (-5.0, 0.0, 0.5, 3.0)
    plot = plot_of(sweep(*map(run, lams)), metric="f1", x="lam")
    assert list(plot.layout.xaxis.ticktext) == ["−5", "0", "0.5", "3"]
    assert list(plot.layout.xaxis.tickvals) == [0, 1, 2, 3]
    level, zero = plot.layout.shapes
    assert (level.y0, level.y1, zero.x0, zero.x1) == (0.8, 0.8, 1, 1)
    assert plot.layout.yaxis.title.text == "F1"
    for runs, scale in ([run(lam, study={"over": True}) for lam in lams], ""), (map(run, lams), "linear"):
        plot = plot_of(sweep(*runs), x="lam", x_scale=scale)
        assert plot.layout.xaxis.tickvals is None
        assert {x for trace in means(plot) for x in trace.x} == {*lams}


def test_caption_states_seeds_and_error_bar():
    single = figure_of(sweep(run(1.0), run(0.0)))
    assert [point.error_y.visible for point in means(single.draw())] == [False, False]
    assert "n = 1 seed" in single.caption
    caption = figure_of(sweep(*SWEEP.runs, run(3.0))).caption
    assert "n = 1 to 2" in caption
    assert "95%" in caption
    once, twice = (figure_of(sweep(*SWEEP.runs * repeats)) for repeats in (1, 2))
    assert "means over seeds (n = 2)" in twice.caption
    assert twice.table.rows == once.table.rows


def test_only_finished_runs_with_both_values_are_drawn():
    runs = [run(0.0), run(1.0, isoscore_star=None), run(0.0, 1, isoscore_star=None), WAITING]
    assert [row[:3] for row in figure_of(sweep(*runs)).table.rows] == [[0.0, 1, 0.8]]
    table = figure_of(sweep(*runs), x="lam").table
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [(row["performance_seeds"], row["isoscore_star_seeds"]) for row in rows] == [(2, 1), (1, 0)]
    assert figure_of(SWEEP).version == figure_of(sweep(*SWEEP.runs)).version
    assert figure_of(sweep(*SWEEP.runs, run(3.0))).version != figure_of(SWEEP).version


@AXES
def test_undefined_runs_are_counted_with_reason(x):
    undefined = [run(1.0, seed, None, performance_reason="All predictions are equal.") for seed in (2, 3)]
    figure = by_x(sweep(*SWEEP.runs, *undefined), x, seeds=True)
    sentence = "Not drawn, because performance is undefined: 2 runs. All predictions are equal."
    assert figure.caption.endswith(sentence)
    assert figure.table.columns == ["lambda", "seed", "performance", "performance_reason", "isoscore_star",
                                    "isoscore_star_reason"]  # fmt: skip
    assert len(figure.table.rows) == 8
    missing = [row[:4] for row in figure.table.rows if row[2] is None]
    assert missing == [[1.0, seed, None, "All predictions are equal."] for seed in (2, 3)]
    assert [row[1] for row in by_x(sweep(*SWEEP.runs, *undefined), x).table.rows] == [2, 2, 2]
    assert by_x(sweep(*undefined), x).empty == sentence
    runs = [run(0.0), run(1.0, 0, 0.99), run(1.0, 1, None, None, RunStatus.PRUNED)]
    caption = by_x(sweep(*runs), x).caption
    assert caption.endswith("Read with care, because the study pruned some of their runs, and the finished ones "
                            "overstate them: λ = 1.")  # fmt: skip
    assert "with care" not in by_x(sweep(*runs[:2]), x).caption


def test_empty_figure_explains():
    assert "first run has finished" in figure_of(sweep(WAITING)).empty
    assert "nothing to plot" in figure_of(sweep(run(performance=None, status=RunStatus.FAILED))).empty
    undefined = sweep(run(1.0))
    undefined.add_readings("silhouette", {undefined.runs[0].id: MeasuredValue(None, "All rows have one label.")})
    empty = figure_of(undefined, y="silhouette").empty
    assert empty == "Not drawn, because Silhouette is undefined: λ = 1 seed 0. All rows have one label."
    assert figure_of(sweep(run(1.0)), y="silhouette").empty.endswith("It was not measured.")


def test_families_are_lines_through_baseline():
    runs = [run(lam, zeta=zeta, isoscore_star=0.2 + lam / 10 + zeta) for lam in (-1.0, 1.0) for zeta in (0.2, 0.8)]
    figure = figure_of(sweep(run(0.0), *runs))
    plot = figure.draw()
    (line,) = (trace for trace in plot.data if trace.mode == "lines")
    assert line.x[3] is None
    assert (line.x[:3], line.x[4:]) == (pytest.approx((0.3, 0.2, 0.5)), pytest.approx((0.9, 0.2, 1.1)))
    symbols = [(trace.name, trace.marker.symbol) for trace in plot.data if trace.showlegend]
    assert symbols == [("ζ = 0.2", "circle"), ("ζ = 0.8", "square")]
    assert [row[:2] for row in figure.table.rows] == [[-1, 0.2], [-1, 0.8], [0, None], [1, 0.2], [1, 0.8]]
    assert "Lines connect" in figure.caption


def test_methods_are_side_by_side_and_share_baseline():
    plot = plot_of(sweep(run(0.0), *(run(1.0, regularizer=method) for method in (ISTAR, COSREG))), x="lam")
    points = [(trace.x[0], trace.marker.color) for trace in means(plot)]
    assert points == [(0, lambda_color(0)), (0.875, METHODS[ISTAR]), (1.125, METHODS[COSREG])]
    assert list(plot.layout.xaxis.ticktext) == ["0", "1"]
    runs = sweep(run(0.0), *(run(1.0, regularizer=method) for method in (COSREG, ISTAR)))
    plot = plot_of(runs, x="regularizer", x_scale="log")
    assert list(plot.layout.xaxis.ticktext) == ["none", "I-STAR", "CosReg"]
    assert sorted(x for trace in means(plot) for x in trace.x) == [0, 1, 2]
    plot = plot_of(sweep(run(0.0), *(run(1.0, regularizer=name) for name in (ISTAR, COSREG))), facet="regularizer")
    assert [note.text for note in plot.layout.annotations] == ["I-STAR", "CosReg"]
    panels = sorted((trace.xaxis, len(trace.x)) for trace in means(plot))
    assert panels == [("x", 1), ("x", 1), ("x2", 1), ("x2", 1)]
    assert {shape.xref for shape in plot.layout.shapes} == {"x domain", "x2 domain"}


def test_many_points_have_legend_instead_of_labels():
    small, large = (plot_of(sweep(*(run(float(lam), isoscore_star=lam / n) for lam in range(n)))) for n in (4, 25))
    names = [
        [text for trace in plot.data if trace.mode == "markers+text" for text in trace.text] for plot in (small, large)
    ]
    assert names == [[f"λ = {lam}" for lam in range(4)], ["λ = 0"]]
    assert legend_names(small) == []
    assert legend_names(large) == [f"λ = {lam}" for lam in (0, 3, 7, 10, 14, 17, 21, 24)]
    models = [f"m{i}" for i in range(4)]
    runs = [run(lam / 10, 0, model=model) for lam in range(-50, 50) for model in models]
    plot = plot_of(sweep(*runs, model=models), seeds=True, color="model")
    assert len(means(plot)) == 4
    assert sum(len(trace.x) for trace in means(plot)) == 400
    assert sum(len(trace.x) for trace in plot.data if trace.marker.size == RUN_SIZE) == 400
    assert len(plot.data) <= 20


@pytest.mark.parametrize(("error", "factor"), [(ErrorBar.CI95, T95), (ErrorBar.SE, 1), (ErrorBar.STD, 2**0.5)])
def test_error_bars_follow_style(error, factor):
    figure = figure_of(SWEEP, error=error)
    assert figure.table.columns[3] == f"performance_{error.column}"
    assert figure.table.rows[0][3] == pytest.approx(factor * 0.005, rel=1e-4)
    assert means(figure.draw())[0].error_y.array[0] == figure.table.rows[0][3]
    assert error.description in figure.caption


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(
    st.lists(
        st.tuples(st.floats(-1, 1), st.floats(0, 1), st.sampled_from([-1.0, 0.0, 1.0]), st.integers(0, 3)),
        min_size=1,
        max_size=20,
        unique_by=lambda row: row[2:],
    ),
    st.sampled_from(ErrorBar),
)
def test_axes_contain_points_runs_and_possible_error_bars(rows, error):
    table = sweep(*(run(lam, seed, performance=y, isoscore_star=x) for y, x, lam, seed in rows))
    for x in ("isoscore_star", "lam"):
        plot = plot_of(table, metric="matthews", x=x, seeds=True, error=error)
        for trace in plot.data:
            for axis, values, bars, minimum, maximum in (
                ("xaxis", trace.x, trace.error_x, *((0, 1) if x == "isoscore_star" else (-inf, inf))),
                ("yaxis", trace.y, trace.error_y, -1, 1),
            ):
                low, high = plot.layout[axis].range
                widths = bars.array if bars.visible else [0] * len(values)
                for value, width in zip(values, widths, strict=True):
                    if value is not None:
                        assert low < max(value - (width or 0), minimum)
                        assert min(value + (width or 0), maximum) < high


def test_axis_ends_near_bounds_and_baseline_has_ring():
    figure = figure_of(sweep(run(1.0, 0, 0.2, 0.1), run(1.0, 1, 0.95, 0.9)))
    assert "t, cut at the ends of the scale." in figure.caption
    assert "cut" not in figure_of(SWEEP).caption
    plot = figure.draw()
    for axis, bar, center in (("yaxis", "error_y", 0.575), ("xaxis", "error_x", 0.5)):
        (bars,) = (trace[bar] for trace in means(plot))
        assert (bars.array[0], bars.arrayminus[0]) == pytest.approx((1 - center, center))
        low, high = plot.layout[axis].range
        assert -0.05 < low < 0
        assert 1 < high < 1.05
    plot = plot_of(SWEEP)
    (ring,) = (trace for trace in plot.data if trace.marker.size == RING_SIZE)
    assert (ring.x, ring.y) == ((pytest.approx(0.305),), (pytest.approx(0.805),))
    assert [shape.y0 for shape in plot.layout.shapes] == [pytest.approx(0.805)]


def test_collapsed_settings_are_hollow():
    settings = [setting for setting in SWEEP.settings if setting.lam < 0]
    figure = scatter(SWEEP, "accuracy", collapsed=settings)
    symbols = {trace.x[0]: trace.marker.symbol[0] for trace in means(figure.draw())}
    assert list(symbols.values()) == ["circle-open", "circle", "circle"]
    assert "Hollow: collapsed." in figure.caption
    assert "Hollow" not in scatter(SWEEP, "accuracy").caption


def test_colors_follow_style_if_it_varies():
    models = ["tiny-bert", "tiny-gpt"]
    runs = sweep(*(run(lam, model=model) for lam in (0.0, 1.0) for model in models), model=models)
    plot = plot_of(runs, color="model")
    assert [trace.marker.color for trace in means(plot)] == [*SERIES[:2]]
    assert legend_names(plot) == models
    usual = plot_of(runs, color="zeta")
    assert [trace.marker.color for trace in means(usual)] == [lambda_color(0), lambda_color(1)]


def test_axes_accept_any_setting_or_measure():
    figure = figure_of(measured(GRID, "mean_cosine", lambda row: 0.5 - 0.1 * row.lam), x="batch_size", y="mean_cosine")
    assert figure.title == "Mean cosine similarity by batch size"
    layout = figure.draw().layout
    titles = (layout.xaxis.title.text, layout.yaxis.title.text)
    assert titles == ("Batch size", "Mean cosine similarity, last layer")
    assert figure.table.columns[:4] == ["lambda", "batch_size", "mean_cosine_seeds", "mean_cosine_mean"]
    assert figure.table.rows[0][:4] == [0, 8, 2, pytest.approx(0.5)]
    assert figure_of(GRID, y="accuracy").title == "Performance by isotropy"
    assert [*list_measured_quantities(GRID, "accuracy")][:4] == ["performance", "isoscore_star", "f1", "matthews"]
    runs = sweep(run(0.0, 0), run(0.0, 1, isoscore_star=None), run(1.0), run(3.0))
    figure = figure_of(measured(runs, "silhouette", lambda row: 0.3 if row.lam == 0 else None), y="silhouette")
    assert figure.title == "Silhouette by isotropy"
    assert [row[:3] for row in figure.table.rows] == [[0, 1, 0.3]]
    assert "Silhouette is of the last layer’s sentence vectors. Range: [−1, 1]." in figure.caption


def test_logarithmic_axis_leaves_out_nonpositive_values():
    figure = figure_of(GRID, x="lam", x_scale="log", y_scale="log")
    plot = figure.draw()
    assert (plot.layout.xaxis.type, plot.layout.yaxis.type) == ("log", "log")
    assert {x for trace in means(plot) for x in trace.x} == {1, 3}
    assert "because λ is 0 or below on a logarithmic axis: 2 points." in figure.caption
    assert "equally spaced" not in figure.caption
    assert len(figure.table.rows) == 6


def test_measured_color_has_scale_and_color_bar():
    figure = figure_of(GRID, x="lam", color="isoscore_star")
    plot = figure.draw()
    (shaded,) = means(plot)
    assert list(shaded.marker.color) == pytest.approx([0.2, 0.2, 0.3, 0.3, 0.5, 0.5])
    assert (shaded.marker.cmin, shaded.marker.cmax) == pytest.approx((0.2, 0.5))
    assert [shaded.marker.colorscale[end][1] for end in (0, -1)] == [ordered_color(0), ordered_color(1)]
    texts = [note.text for note in plot.layout.annotations[-4:]]
    assert texts == ["0.20", "0.35", "0.50", "IsoScore★ (1 is isotropic)"]
    bar = [shape.fillcolor for shape in plot.layout.shapes if shape.type == "rect"]
    assert (bar[0], bar[-1]) == (ordered_color(0), ordered_color(1))
    assert "isoscore_star_mean" in figure.table.columns
    table = measured(GRID, "mean_cosine", lambda row: row.lam or None)
    quiet, shaded = means(plot_of(table, x="lam", color="mean_cosine"))
    assert (quiet.marker.color, len(quiet.x), len(shaded.x)) == (QUIET, 2, 4)


def test_facet_draws_panel_for_each_value_up_to_limit():
    figure = figure_of(GRID, x="lam", facet="batch_size")
    plot = figure.draw()
    assert [note.text for note in plot.layout.annotations] == ["batch size 8", "batch size 16"]
    assert {(trace.xaxis, trace.yaxis) for trace in means(plot)} == {("x", "y"), ("x2", "y")}
    assert plot.layout.xaxis.range == plot.layout.xaxis2.range
    assert sum(len(trace.x) for trace in means(plot)) == 6
    assert figure.wide
    assert "One panel for each batch size, all on the same axes." in figure.caption
    sizes = list(range(1, 12))
    table = sweep(*(run(lam, batch_size=size) for lam in (0.0, 1.0) for size in sizes), batch_size=sizes)
    figure = figure_of(table, facet="batch_size")
    assert len(figure.draw().layout.annotations) == MAX_PANELS
    assert f"The first {MAX_PANELS} of 11 are drawn." in figure.caption
    assert len(figure.table.rows) == 22


@pytest.mark.parametrize(
    ("field", "name"), [("x", "luck"), ("y", "luck"), ("color", "luck"), ("facet", "luck"), ("facet", "performance")]
)
def test_unknown_quantity_is_refused_with_choices(field, name):
    with pytest.raises(InvalidError) as refusal:
        figure_of(GRID, **{field: name})
    assert refusal.value.field == field
    noun = "setting" if field == "facet" else "quantity"
    assert refusal.value.message.startswith(f"No {noun} named `{name}`. Choose one of: ")
    assert "batch_size" in refusal.value.message
