"""Any two quantities, in colors and panels by further ones, on axes that are linear or logarithmic."""

import pytest

from app.figures.palette import QUIET, in_order
from app.results.figures.scatter import scatter
from app.results.figures.scatter_points import MAX_PANELS, ScatterStyle
from app.results.quantities import measured_quantities
from app.results.run_table import Reading
from isoscope.core.errors import InvalidError
from isotropy.catalog import Regularizer
from tests.unit.figures.rows import run, sweep

BATCHES = [8, 16]
GRID = sweep(
    *(
        run(lam, seed, 0.7 + 0.01 * lam + 0.005 * seed, 0.2 + 0.1 * lam, batch_size=rows)
        for lam in (0.0, 1.0, 3.0)
        for rows in BATCHES
        for seed in (0, 1)
    ),
    batch_size=BATCHES,
)


def means(plot):
    return [trace for trace in plot.data if trace.error_y.visible is not None]


def test_a_setting_stands_along_and_a_measure_of_the_last_layer_upward():
    GRID.add_readings("mean_cosine", {one.id: Reading(0.5 - 0.1 * one.lam) for one in GRID.runs})
    figure = scatter(GRID, "accuracy", ScatterStyle(x="batch_size", y="mean_cosine"))
    plot = figure.draw()
    assert figure.title == "Mean cosine similarity by batch size"
    assert plot.layout.xaxis.title.text == "Batch size"
    assert plot.layout.yaxis.title.text == "Mean cosine similarity, last layer"
    assert {x for trace in means(plot) for x in trace.x} == {8, 16}
    assert figure.table.columns[:4] == ["lambda", "batch_size", "mean_cosine_seeds", "mean_cosine_mean"]
    assert figure.table.rows[0][:4] == [0, 8, 2, pytest.approx(0.5)]


def test_words_stand_at_equal_steps_in_their_order():
    methods = [run(1.0, regularizer=one) for one in (Regularizer.COSREG, Regularizer.ISTAR)]
    plot = scatter(sweep(run(0.0), *methods), "accuracy", ScatterStyle(x="regularizer", x_scale="log")).draw()
    assert list(plot.layout.xaxis.ticktext) == ["none", "I-STAR", "CosReg"]
    assert sorted(x for trace in means(plot) for x in trace.x) == [0, 1, 2]


def test_a_logarithmic_axis_leaves_out_what_is_not_positive_and_says_so():
    figure = scatter(GRID, "accuracy", ScatterStyle(x="lam", x_scale="log", y_scale="log"))
    plot = figure.draw()
    assert (plot.layout.xaxis.type, plot.layout.yaxis.type) == ("log", "log")
    assert {x for trace in means(plot) for x in trace.x} == {1, 3}
    assert "because λ is 0 or below on a logarithmic axis: 2 points." in figure.caption
    assert "equally spaced" not in figure.caption
    assert len(figure.table.rows) == 6


def test_lambda_keeps_its_distances_where_that_is_asked_for():
    plot = scatter(GRID, "accuracy", ScatterStyle(x="lam", x_scale="linear")).draw()
    assert plot.layout.xaxis.tickvals is None
    assert {x for trace in means(plot) for x in trace.x} == {0, 1, 3}


def test_what_is_measured_has_colors_along_an_order_and_a_bar_that_tells_them():
    figure = scatter(GRID, "accuracy", ScatterStyle(x="lam", colour="isoscore_star"))
    plot = figure.draw()
    (shaded,) = means(plot)
    assert list(shaded.marker.color) == pytest.approx([0.2, 0.2, 0.3, 0.3, 0.5, 0.5])
    assert (shaded.marker.cmin, shaded.marker.cmax) == pytest.approx((0.2, 0.5))
    assert [shaded.marker.colorscale[end][1] for end in (0, -1)] == [in_order(0), in_order(1)]
    assert [one.text for one in plot.layout.annotations[-4:]] == ["0.20", "0.35", "0.50", "IsoScore★ (1 is isotropic)"]
    bar = [shape.fillcolor for shape in plot.layout.shapes if shape.type == "rect"]
    assert (bar[0], bar[-1]) == (in_order(0), in_order(1))
    assert "isoscore_star_mean" in figure.table.columns


def test_points_without_the_value_that_colors_tell_are_quiet():
    GRID.add_readings("mean_cosine", {one.id: Reading(one.lam) for one in GRID.runs if one.lam})
    plot = scatter(GRID, "accuracy", ScatterStyle(x="lam", colour="mean_cosine")).draw()
    quiet, shaded = means(plot)
    assert (quiet.marker.color, len(quiet.x), len(shaded.x)) == (QUIET, 2, 4)


def test_a_facet_is_a_panel_for_each_value_on_the_same_axes():
    figure = scatter(GRID, "accuracy", ScatterStyle(x="lam", facet="batch_size"))
    plot = figure.draw()
    assert [one.text for one in plot.layout.annotations] == ["batch size 8", "batch size 16"]
    assert {(trace.xaxis, trace.yaxis) for trace in means(plot)} == {("x", "y"), ("x2", "y")}
    assert plot.layout.xaxis.range == plot.layout.xaxis2.range
    assert sum(len(trace.x) for trace in means(plot)) == 6
    assert figure.wide
    assert "One panel for each batch size, all on the same axes." in figure.caption


def test_plain_training_stands_in_the_panel_of_every_regularizer():
    methods = [run(1.0, regularizer=one) for one in (Regularizer.ISTAR, Regularizer.COSREG)]
    plot = scatter(sweep(run(0.0), *methods), "accuracy", ScatterStyle(facet="regularizer")).draw()
    assert [one.text for one in plot.layout.annotations] == ["I-STAR", "CosReg"]
    places = [(trace.xaxis, len(trace.x)) for trace in means(plot)]
    assert sorted(places) == [("x", 1), ("x", 1), ("x2", 1), ("x2", 1)]
    assert {shape.xref for shape in plot.layout.shapes} == {"x domain", "x2 domain"}


def test_of_many_values_the_first_have_panels_and_the_caption_tells_how_many_there_are():
    rows = list(range(1, 12))
    many = sweep(*(run(lam, batch_size=one) for lam in (0.0, 1.0) for one in rows), batch_size=rows)
    figure = scatter(many, "accuracy", ScatterStyle(facet="batch_size"))
    assert len(figure.draw().layout.annotations) == MAX_PANELS
    assert f"The first {MAX_PANELS} of 11 are drawn." in figure.caption
    assert len(figure.table.rows) == 22


@pytest.mark.parametrize("field", ["x", "y", "colour", "facet"])
def test_a_name_that_is_none_is_refused_with_those_that_are(field):
    with pytest.raises(InvalidError) as refused:
        scatter(GRID, "accuracy", ScatterStyle()._replace(**{field: "luck"}))
    assert refused.value.field == field
    what = "setting" if field == "facet" else "quantity"
    assert refused.value.message.startswith(f"No {what} named `luck`. Choose one of: ")
    assert "batch_size" in refused.value.message


def test_a_facet_is_no_measure():
    with pytest.raises(InvalidError, match="No setting named `performance`"):
        scatter(GRID, "accuracy", ScatterStyle(facet="performance"))


def test_the_metric_by_its_own_name_is_performance_and_the_others_are_of_the_same_task():
    assert scatter(GRID, "accuracy", ScatterStyle(y="accuracy")).title == "Performance by isotropy"
    assert [*measured_quantities(GRID, "accuracy")][:4] == ["performance", "isoscore_star", "f1", "matthews"]
