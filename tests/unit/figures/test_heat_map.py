import json

from app.embeddings.figures.overlay import Subject
from app.encodings.figures import Row, heat_map
from tests.unit.figures.clouds import measurement

REASON = "All points are <equal>."


def layer(number, isoscore, cosine):
    rows = [
        measurement("isoscore", isoscore, 400, se=0.01, reason=None if isoscore else REASON),
        measurement("mean_cosine", cosine, 300),
    ]
    return Row(number, f"/embeddings/{number}", Subject(f"layer {number}", {row.measure: row for row in rows}))


LAYERS = [layer(0, 0.2, 0.9), layer(1, 0.1, 0.9), layer(2, 0.4, 0.9), layer(3, None, 0.9)]


def cells(measures=("isoscore", "mean_cosine", "twonn")):
    (trace,) = heat_map(LAYERS, measures).draw().data
    return trace


def test_every_column_is_shaded_from_its_own_least_to_its_own_greatest_value():
    assert [row[0] for row in cells().z] == [1 / 3 * (0.2 - 0.1) / 0.1, 0, 1, None]
    assert [row[1] for row in cells().z] == [0.5] * 4
    assert [row[2] for row in cells().z] == [None] * 4


def test_cells_print_their_value_and_tell_error_rows_and_reason():
    assert [row[0] for row in cells().text] == ["0.200", "0.100", "0.400", "–"]
    assert cells().hovertext[0][0] == "layer 0, IsoScore<br>0.200 ± 0.010, n = 400"
    assert cells().hovertext[0][1].endswith("0.900, n = 300")
    assert cells().hovertext[3][0] == "layer 3, IsoScore<br>undefined: All points are &lt;equal&gt;."
    assert cells().hovertext[0][2].endswith("not measured")


def test_a_cell_leads_to_the_report_of_its_layer():
    assert [row[0]["href"] for row in cells().customdata] == [f"/embeddings/{number}" for number in range(4)]


def test_the_table_has_a_row_for_each_measure_of_a_layer_with_its_error_rows_and_reason():
    table = heat_map(LAYERS[2:], ["mean_cosine", "isoscore", "twonn"]).table
    assert table.columns == ["layer", "measure", "value", "se", "n", "reason"]
    assert table.rows == [
        [2, "mean_cosine", 0.9, None, 300, ""],
        [2, "isoscore", 0.4, 0.01, 400, ""],
        [3, "mean_cosine", 0.9, None, 300, ""],
        [3, "isoscore", None, 0.01, 400, REASON],
    ]


def test_no_layer_is_told_in_words_and_nothing_undefined_becomes_nan():
    assert "first layer" in heat_map([], ["isoscore"]).empty
    assert "NaN" not in json.dumps(heat_map(LAYERS, ["isoscore"]).draw().to_plotly_json(), default=list)


def test_a_heading_wraps_the_name_and_tells_which_end_is_isotropic():
    measures = ["isoscore", "mean_cosine", "partition_log", "twonn"]
    assert list(heat_map(LAYERS, measures).draw().layout.xaxis.ticktext) == [
        "IsoScore<br>↑ isotropic",
        "Mean cosine<br>similarity<br>↓ isotropic",
        "Partition<br>function,<br>logarithm<br>↑ isotropic",
        "Intrinsic<br>dimension,<br>TwoNN",
    ]
    assert "↑ isotropic: dark is most isotropic" in heat_map(LAYERS, measures).caption
