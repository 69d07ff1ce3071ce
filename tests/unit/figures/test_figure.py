import csv
import io
import json

import pytest

from app.figures.figure import ColumnarRows, Figure, FigureTable, escape_text, pick_evenly, plot


def test_csv_escapes_formulas_and_columnar_rows_read_as_rows():
    table = FigureTable(["=name", "value"], [["=1+1", -2.5], ["+1", None], ["-x", 3.0], ["@a", 0.1], ["plain", 1e-9]])
    rows = list(csv.reader(io.StringIO(table.csv())))
    first, second = ["'=name", "'=1+1", "'+1", "'-x", "'@a", "plain"], ["value", "-2.5", "", "3.0", "0.1", "1e-09"]
    assert rows == [list(row) for row in zip(first, second, strict=True)]
    columns, rows = ColumnarRows(range(3), ["a", "b", "c"]), [[0, "a"], [1, "b"], [2, "c"]]
    assert (list(columns), len(columns)) == (rows, 3)
    assert (columns[1], columns[-1], columns[1:9]) == ([1, "b"], [2, "c"], rows[1:])
    tables = [FigureTable(["n", "name"], held) for held in (columns, rows)]
    assert len({table.csv() for table in tables}) == 1
    assert len({Figure("a", "A", "", table, draw=lambda: plot([])).version for table in tables}) == 1


def test_plot_has_house_template():
    layout = json.loads(plot([]).to_json())["layout"]
    assert layout["template"]["layout"]["paper_bgcolor"] == "rgba(0, 0, 0, 0)"
    assert "data" not in layout["template"]
    template = json.loads(plot([]).to_json())["layout"]["template"]["layout"]
    assert {axis: (template[axis]["exponentformat"], template[axis]["minexponent"]) for axis in ("xaxis", "yaxis")} == {
        "xaxis": ("e", 5), "yaxis": ("e", 5),
    }  # fmt: skip


@pytest.mark.parametrize("cells", [[1.0, 2.0, "a"], [1.0, None, "a"], [1.0, 2.5, "b"]])
def test_figure_version_depends_on_caption_and_cells(cells):
    def version(*row, caption=""):
        table = FigureTable(["x", "y", "z"], [list(row), [0, 0, ""]])
        return Figure("a", "A", caption, table, draw=lambda: plot([])).version

    assert version(*cells) == version(*cells)
    assert version(*cells) != version(1.0, 2.25, "a")
    assert version(*cells) != version(*cells, caption="two")


def test_user_text_is_escaped_and_cut_and_thinning_keeps_ends():
    assert escape_text("a & <i>b</i> %{y}", 40) == "a &amp; &lt;i&gt;b&lt;/i&gt; %&#123;y}"
    assert escape_text("0123456789", 5) == "0123…"
    assert pick_evenly(range(5), 5) == [0, 1, 2, 3, 4]
    assert pick_evenly(range(101), 5) == [0, 25, 50, 75, 100]
