import json

from app.db.models import Measurement, Pooling
from app.embeddings.figures.layers import HeatMapRow, LayerPoint, heat_map, measure_by_layer
from isotropy.catalog import MEASURES
from tests.unit.figures.clouds import measurement

REASON = "All points are <equal>."


def layer(number, isoscore, cosine):
    rows = [
        measurement("isoscore", isoscore, 400, se=0.01, reason=None if isoscore else REASON),
        measurement("mean_cosine", cosine, 300),
    ]
    return HeatMapRow(number, f"/embeddings/{number}", {row.measure: row for row in rows})


LAYERS = [layer(0, 0.2, 0.9), layer(1, 0.1, 0.9), layer(2, 0.4, 0.9), layer(3, None, 0.9)]


def map_of(layers, *slugs):
    return heat_map(layers, [MEASURES[slug] for slug in slugs])


def test_heat_map_scales_each_column_separately():
    (cells,) = map_of(LAYERS, "isoscore", "mean_cosine", "twonn").draw().data
    assert [row[0] for row in cells.z] == [1 / 3 * (0.2 - 0.1) / 0.1, 0, 1, None]
    assert [row[1] for row in cells.z] == [0.5] * 4
    assert [row[2] for row in cells.z] == [None] * 4
    assert [row[0] for row in cells.text] == ["0.200", "0.100", "0.400", "–"]
    assert cells.hovertext[0][0] == "layer 0, IsoScore<br>0.200 (SE 0.010), n = 400"
    assert cells.hovertext[3][0] == "layer 3, IsoScore<br>undefined: All points are &lt;equal&gt;."
    assert cells.hovertext[0][2].endswith("not measured")
    assert [row[0]["href"] for row in cells.customdata] == [f"/embeddings/{number}" for number in range(4)]
    figure = map_of(LAYERS, "isoscore", "mean_cosine", "partition_log", "twonn")
    assert list(figure.draw().layout.xaxis.ticktext) == [
        "IsoScore<br>↑ isotropic",
        "Mean cosine<br>similarity<br>↓ isotropic",
        "Partition<br>function,<br>logarithm<br>↑ isotropic",
        "Intrinsic<br>dimension,<br>TwoNN",
    ]


def test_heat_map_table_has_errors_and_reasons():
    table = map_of(LAYERS[2:], "mean_cosine", "isoscore", "twonn").table
    assert table.columns == ["layer", "measure", "value", "se", "n", "reason"]
    assert table.rows == [
        [2, "mean_cosine", 0.9, None, 300, ""],
        [2, "isoscore", 0.4, 0.01, 400, ""],
        [3, "mean_cosine", 0.9, None, 300, ""],
        [3, "isoscore", None, 0.01, 400, REASON],
    ]
    assert "first layer" in map_of([], "isoscore").empty
    assert "NaN" not in json.dumps(map_of(LAYERS, "isoscore").draw().to_plotly_json(), default=list)


def by_isoscore(**points):
    return measure_by_layer(
        MEASURES["isoscore"],
        {
            Pooling(pooling): [
                LayerPoint(i, Measurement(measure="isoscore", value=value, se=se, reason=reason, n=50))
                for i, value, se, reason in values
            ]
            for pooling, values in points.items()
        },
    )


def test_measure_by_layer_draws_line_for_each_pooling():
    figure = by_isoscore(first=[(0, None, None, "All are equal."), (1, 0.5, 0.1, None)], mean=[(0, 0.2, None, None)])
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
    assert "No layer has a value" in by_isoscore(mean=[(0, None, None, None)]).empty
    assert "standard error" not in by_isoscore(mean=[(0, 1.0, None, None)]).caption
    deep = by_isoscore(mean=[(i, 0.5, None, None) for i in range(49)])
    assert deep.draw().layout.xaxis.dtick == 4
