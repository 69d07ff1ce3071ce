import csv
import io
import json

from app.figures.figure import Figure, Table, plot


def test_a_csv_cannot_start_a_formula_but_keeps_negative_numbers():
    table = Table(["=name", "value"], [["=1+1", -2.5], ["+1", None], ["-x", 3.0], ["@a", 0.1], ["plain", 1e-9]])
    rows = list(csv.reader(io.StringIO(table.csv())))
    assert rows == [
        ["'=name", "value"],
        ["'=1+1", "-2.5"],
        ["'+1", ""],
        ["'-x", "3.0"],
        ["'@a", "0.1"],
        ["plain", "1e-09"],
    ]


def test_a_plot_carries_the_house_template_and_nothing_of_plotlys():
    layout = json.loads(plot([]).to_json())["layout"]
    assert layout["template"]["layout"]["paper_bgcolor"] == "rgba(0, 0, 0, 0)"
    assert "data" not in layout["template"]


def test_the_version_follows_words_and_numbers():
    def figure(caption, value):
        return Figure("a", "A", caption, Table(["x"], [[value]]), draw=lambda: plot([]))

    assert figure("one", 1.0).version == figure("one", 1.0).version
    assert len({figure("one", 1.0).version, figure("two", 1.0).version, figure("one", 2.0).version}) == 3
