"""One measure by layer, from rows as workers write them."""

from app.db.models import Measurement, Pooling
from app.encodings.figures import LayerPoint, by_layer
from isotropy.catalog import MEASURES


def point(layer, value, se=None, reason=None):
    return LayerPoint(layer, Measurement(measure="isoscore", value=value, se=se, reason=reason, n=50))


def test_a_line_for_each_pooling_has_error_bars_where_a_standard_error_is_known():
    figure = by_layer(
        MEASURES["isoscore"],
        {Pooling.FIRST: [point(0, None, reason="All are equal."), point(1, 0.5, 0.1)], Pooling.MEAN: [point(0, 0.2)]},
    )
    first, mean = figure.draw().data
    assert (first.name, list(first.x), list(first.y), list(first.error_y.array)) == (
        "first token", [0, 1], [None, 0.5], [None, 0.1],
    )  # fmt: skip
    assert (mean.name, list(mean.y)) == ("mean", [0.2])
    assert first.line.color != mean.line.color
    assert "one standard error" in figure.caption
    assert "Undefined at layer 0, first token: All are equal." in figure.caption
    assert figure.table.rows[1] == ["first", 1, 0.5, 0.1, 50, None]
    assert figure.empty is None


def test_without_any_value_it_says_so():
    assert "No layer has a value" in by_layer(MEASURES["isoscore"], {Pooling.MEAN: [point(0, None)]}).empty
    assert "standard error" not in by_layer(MEASURES["isoscore"], {Pooling.MEAN: [point(0, 1.0)]}).caption


def test_the_axis_of_a_deep_model_is_not_crowded():
    deep = by_layer(MEASURES["isoscore"], {Pooling.MEAN: [point(layer, 0.5) for layer in range(49)]})
    assert deep.draw().layout.xaxis.dtick == 4
