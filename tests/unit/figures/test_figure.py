import csv
import io
import json
from itertools import combinations
from math import dist, log10

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.figures import figure, labels, palette


def test_csv_escapes_formulas_and_columnar_rows_read_as_rows():
    table = figure.FigureTable(
        ["=name", "value"], [["=1+1", -2.5], ["+1", None], ["-x", 3.0], ["@a", 0.1], ["plain", 1e-9]]
    )
    rows = list(csv.reader(io.StringIO(table.csv())))
    first, second = ["'=name", "'=1+1", "'+1", "'-x", "'@a", "plain"], ["value", "-2.5", "", "3.0", "0.1", "1e-09"]
    assert rows == [list(row) for row in zip(first, second, strict=True)]
    columns, rows = figure.ColumnarRows(range(3), ["a", "b", "c"]), [[0, "a"], [1, "b"], [2, "c"]]
    assert (list(columns), len(columns)) == (rows, 3)
    assert (columns[1], columns[-1], columns[1:9]) == ([1, "b"], [2, "c"], rows[1:])
    tables = [figure.FigureTable(["n", "name"], held) for held in (columns, rows)]
    assert len({table.csv() for table in tables}) == 1
    assert len({figure.Figure("a", "A", "", table, draw=lambda: figure.plot([])).version for table in tables}) == 1


def test_plot_has_house_template():
    layout = json.loads(figure.plot([]).to_json())["layout"]
    assert layout["template"]["layout"]["paper_bgcolor"] == "rgba(0, 0, 0, 0)"
    assert "data" not in layout["template"]
    template = json.loads(figure.plot([]).to_json())["layout"]["template"]["layout"]
    assert {axis: (template[axis]["exponentformat"], template[axis]["minexponent"]) for axis in ("xaxis", "yaxis")} == {
        "xaxis": ("e", 5), "yaxis": ("e", 5),
    }  # fmt: skip


@pytest.mark.parametrize("cells", [[1.0, 2.0, "a"], [1.0, None, "a"], [1.0, 2.5, "b"]])
def test_figure_version_depends_on_caption_and_cells(cells):
    def version(*row, caption=""):
        table = figure.FigureTable(["x", "y", "z"], [list(row), [0, 0, ""]])
        return figure.Figure("a", "A", caption, table, draw=lambda: figure.plot([])).version

    assert version(*cells) == version(*cells)
    assert version(*cells) != version(1.0, 2.25, "a")
    assert version(*cells) != version(*cells, caption="two")


def test_user_text_is_escaped_and_cut_and_thinning_keeps_ends():
    assert figure.escape_text("a & <i>b</i> %{y}", 40) == "a &amp; &lt;i&gt;b&lt;/i&gt; %&#123;y}"
    assert figure.escape_text("0123456789", 5) == "0123…"
    assert figure.pick_evenly(range(5), 5) == [0, 1, 2, 3, 4]
    assert figure.pick_evenly(range(101), 5) == [0, 25, 50, 75, 100]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.9, 1100, [1, 10, 100, 1000]),
        (1, 30, [1, 3, 10, 30]),
        (3, 12, [5, 10]),
        (2, 9, [2, 5]),
        (1e-12, 1, [1e-12, 1e-10, 1e-2, 1]),
    ],
)
def test_ticks_are_round_and_few(low, high, ticks):
    ticks_drawn = figure.log_ticks(low, high)
    assert set(ticks) <= set(ticks_drawn)
    assert 3 <= len(ticks_drawn) <= 8


def test_ticks_within_a_decade_are_linear():
    assert figure.log_ticks(0.0101, 0.0129) == [0.0105, 0.011, 0.0115, 0.012, 0.0125]
    assert figure.log_ticks(0.01, 0.013) == [0.01, 0.011, 0.012, 0.013]
    axis = figure.log_axis("Eigenvalue", [20000.0, 5e-6, None, 0.0])
    assert axis["range"][0] < log10(5e-6)
    assert axis["range"][1] > log10(20000)
    assert axis["ticktext"] == ["0.0001", "0.01", "1", "100", "10,000"]


@pytest.mark.parametrize("values", [[], [0.0], [3.0], [3.0, 3.0]])
def test_log_axis_of_one_value_or_none_has_width(values):
    low, high = figure.log_axis("x", values)["range"]
    assert low < high


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([0.1, 0.1 + 1e-16, 0.1 - 1e-16], [0.08, 0.12]),
        ([-2.0, -2.0 - 1e-14], [-2.4, -1.6]),
        ([0.1, 0.1001], None),
        ([3.0, 3.0], [2.4, 3.6]),
        ([0.0, 0.0], None),
        ([], None),
    ],
)
def test_linear_axis_does_not_magnify_rounding_errors(values, ends):
    axis = figure.linear_axis("Penalty", values)
    assert axis["title"] == {"text": "Penalty"}
    assert axis.get("range") == (ends and pytest.approx(ends))


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([0.5, 0.5, None], (0.3, 0.7)),
        ([0.0], (-0.008, 0.2)),
        ([1.0], (0.8, 1.008)),
        ([], (-0.008, 0.2)),
        ([0.2, 1], None),
    ],
)
def test_range_around_one_value_stays_within_scale(values, ends):
    axis = figure.linear_axis("Accuracy", values, (0, 1))
    assert axis.get("range") == (ends and pytest.approx(ends))
    assert axis["autorangeoptions"] == {"clipmin": pytest.approx(-0.008), "clipmax": pytest.approx(1.008)}


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("lambda", "λ"),
        ("zeta", "ζ"),
        ("batch_size", "batch size"),
        ("ci95_half_width", "± (95% CI)"),
        ("isoscore_star_mean", "IsoScore★ mean"),
        ("isoscore_star_ci95_half_width", "IsoScore★ ± (95% CI)"),
        ("raw_1", "raw, k = 1"),
        ("centred_3_ci95_half_width", "centered, k = 3 ± (95% CI)"),
    ],
)
def test_heading_names_column_in_words(column, words):
    assert labels.heading(column) == words


LAYER = "sst2 · all-MiniLM-L6-v2 · layer {}, mean"


@pytest.mark.parametrize(
    ("names", "room", "short"),
    [
        (["word2vec.npz, centered", "word2vec.npz, white"], 28, ["word2vec.npz, centered", "word2vec.npz, white"]),
        ([LAYER.format(i) for i in (0, 3, 6)], 28, ["layer 0, mean", "layer 3, mean", "layer 6, mean"]),
        ([LAYER.format(i) for i in (0, 3)], 10, ["layer 0", "layer 3"]),
        (
            ["a long name · first, pooled", "a longer name · second, pooled"], 24,
            ["a long name · first", "a longer name · second"],
        ),
        (["glove.npz", "glove.npz, Soft ZCA whitening, eps 0.1"], 28, ["glove.npz", "glove.npz, Sof…ning, eps 0.1"]),
        ([LAYER.format(3)], 28, ["sst2 · all-Min…layer 3, mean"]),
        (
            [f"one and the same beginning {i} one and the same end" for i in (1, 2)], 20,
            ["1. one and …same end", "2. one and …same end"],
        ),
    ],
    ids=["short", "shared start", "shared end", "both", "prefix of others", "single", "equal once cut"],
)  # fmt: skip
def test_short_names_drop_shared_parts(names, room, short):
    assert labels.shorten_names(names, room) == short


UNIT = [0.0, 1.0]
coordinates = st.tuples(st.floats(0, 1), st.floats(0, 1))


@pytest.mark.parametrize(
    ("points", "corners"),
    [
        ([(0.5, 0.5, 0, 0)], ["top right"]),
        ([(0.5, 0.5, 0, 0)] * 2, ["top right", "top left"]),
        ([(0.5, 0.5, 0, 0)] * 6, ["top right", "top left", "bottom right", "bottom left", None, None]),
        ([(0.95, 0.95, 0, 0)], ["bottom left"]),
        ([(0.5, 0.5, 0, 0), (0.55, 0.2, 0, 0.8)], ["top left"]),
    ],
    ids=["single", "two on one point", "no room", "at the edge", "error bar of another point"],
)
def test_label_avoids_labels_error_bars_and_edge(points, corners):
    assert (
        labels.place_labels([labels.LabeledPoint(*point, "λ = 1") for point in points], UNIT, UNIT)[: len(corners)]
        == corners
    )


@given(st.lists(coordinates, min_size=1, max_size=15))
def test_labels_do_not_overlap_labels_or_points(positions):
    points = [labels.LabeledPoint(x, y, 0, 0, "λ = −1") for x, y in positions]
    corners = labels.place_labels(points, UNIT, UNIT)
    pixels = [labels.LabeledPoint(x * labels.MIN_WIDTH, y * labels.MIN_HEIGHT, 0, 0, "λ = −1") for x, y in positions]
    boxes = [labels._place_box(point, *where.split()) for point, where in zip(pixels, corners, strict=True) if where]
    assert not any(first.overlaps(second) for first, second in combinations(boxes, 2))
    marks = [labels.LabelBox(p.x - labels.GAP, p.y - labels.GAP, p.x + labels.GAP, p.y + labels.GAP) for p in pixels]
    assert not any(box.overlaps(mark) for box in boxes for mark in marks)


PAPERS = ("#ffffff", "#14171a")
LAMBDAS = (-50, -10, -5, -3, -1, -0.5, -0.1, -0.01, 0, 0.01, 0.1, 0.5, 1, 3, 5, 10, 50)
GRIDS = ((-5, -3, -1, 0, 1, 3, 5), (-1, -0.3, 0, 0.3, 1), (0, 0.01, 0.1, 1, 10))


def channels(color):
    return [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]


def luminance(color):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels(color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first, second):
    darker, lighter = sorted((luminance(first), luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("paper", PAPERS)
def test_colors_contrast_with_light_and_dark_paper(paper):
    colors = [palette.MAIN, palette.SECOND, palette.MARKED, palette.QUIET, *palette.SERIES, *palette.METHODS.values()]
    colors += [palette.ordered_color(step / 10) for step in range(11)]
    colors += [palette.lambda_color(lam) for lam in LAMBDAS]
    assert [color for color in colors if contrast(color, paper) < 3] == []


def test_lambda_color_encodes_sign_and_size():
    red, green, blue = channels(palette.lambda_color(-1))
    assert blue > green > red
    red, green, blue = channels(palette.lambda_color(1))
    assert red > green > blue
    red, green, blue = channels(palette.lambda_color(0))
    assert max(red, green, blue) - min(red, green, blue) < 0.05
    for sign in (-1, 1):
        brightness = [luminance(palette.lambda_color(sign * lam)) for lam in (0.01, 0.1, 0.5, 1, 3, 5, 10)]
        assert brightness == sorted(brightness, reverse=True)
    assert palette.lambda_color(10) == palette.lambda_color(50)


@pytest.mark.parametrize("grid", GRIDS)
def test_lambdas_of_usual_grids_have_distinct_colors(grid):
    colors = [channels(palette.lambda_color(lam)) for lam in grid]
    assert min(dist(first, second) for first, second in combinations(colors, 2)) > 0.06


def test_opacity_keeps_channels_and_larger_zeta_is_darker():
    assert palette.with_opacity("#14938d", 0.25) == "rgba(20, 147, 141, 0.25)"
    for colors in ([palette.ordered_color(step / 5) for step in range(6)], palette.SCALE):
        brightness = [luminance(color) for color in colors]
        assert brightness == sorted(brightness, reverse=True)
