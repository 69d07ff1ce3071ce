import json
from dataclasses import replace
from functools import cache
from math import log

import numpy as np
import pytest
import torch

from app.embeddings.figures.overlay import Subject
from app.embeddings.figures.report import FIGURES_BY_MEASURE, draw_figures
from app.figures import palette
from app.playground.figures import gaussian_example
from isotropy.activation import activation_profile
from isotropy.anisotropy import anisotropy
from isotropy.catalog import MEASURES, OUTLIER_RULES
from isotropy.cosine import cosine_histogram
from isotropy.intrinsic import twonn
from isotropy.topology import barcode
from tests.unit.figures.clouds import cloud_of, measurement, subject_of, subject_with

REASON = "The points have no spread."
SCORES = {"mean": [0.2, 0.4, None], "sd": [0.1, 0.05, None]}
UNBIASED = {"mean": [0.5, 0.5, 0.5], "sd": [0.2, 0.1, None]}
DATA = {
    "sample_size": {
        "n": 200, "draws": 5, "rows": [8, 64, 128], "drawn": [5, 3, 1],
        "full": {"isoscore": 0.45, "isoscore_unbiased": None}, "zetas": [0, 0.5],
        "isoscore": SCORES, "isoscore_unbiased": UNBIASED,
        "isoscore_star": [SCORES, {"mean": [0.6, 0.7, 0.7], "sd": [0.1, 0.1, 0.1]}],
    },
    "projection": {
        "n": 1000, "x": [0.0, 1.0, 2.0, 3.0], "y": [1.0, -1.0, 0.5, 0.0], "z": [0.0, 0.5, 0.0, -0.5],
        "shares": [0.5, 0.25, 0.125], "labels": {"names": ["a", "", "b"], "codes": [0, 1, 2, 0]},
        "density": {"x_edges": [0, 2, 4], "y_edges": [-1, 1], "counts": [[600, 390]], "outside": 10},
    },
}  # fmt: skip
ALL_FIGURES = [
    "projection", "activation", "spectrum", "cumulative", "anisotropy", "cosines", "rogue", "twonn", "barcode",
    "sample_size",
]  # fmt: skip
SINGLE_FIGURES = {"space"}
CLOUD, WIDE = cache(lambda: cloud_of(200, 6)), cache(lambda: cloud_of(80, 9, seed=1))


@cache
def full():
    return subject_of(CLOUD(), "first", DATA)


@cache
def wide():
    return subject_of(WIDE(), "second", DATA)


def undefined(name="flat"):
    reasons = {slug: measurement(slug, None, 50, reason=REASON) for slug in full().measurements}
    return Subject(name, reasons, {slug: {"reason": REASON} for slug in DATA})


def figure(slug, *subjects):
    return next(result for result in draw_figures(subjects or [full()]) if result.slug == slug)


def traces(slug, *subjects, **attributes):
    drawn = figure(slug, *subjects).draw().data
    return [trace for trace in drawn if all(trace[name] == value for name, value in attributes.items())]


def column(table, name):
    return [row[table.columns.index(name)] for row in table.rows]


def strict(text):
    def refuse(constant):
        raise AssertionError(f"{constant} in JSON")

    return json.loads(text, parse_constant=refuse)


def test_single_and_overlaid_clouds_have_same_figures():
    assert [result.slug for result in draw_figures([full()]) if result.slug not in SINGLE_FIGURES] == ALL_FIGURES
    assert [result.slug for result in draw_figures([full(), wide(), undefined()])] == ALL_FIGURES
    assert {slug for slug in FIGURES_BY_MEASURE if slug not in MEASURES} == {"projection", "sample_size"}
    assert FIGURES_BY_MEASURE["spectrum"] == "spectrum"
    assert [result.slug for result in draw_figures([Subject("bare", {})])] == []


def test_activation_figure_matches_profile():
    profile = activation_profile(CLOUD().moments)
    table = figure("activation").table
    assert column(table, "mean") == profile.mean.tolist()
    assert column(table, "standard_deviation") == profile.std.tolist()
    low, high, mean = traces("activation")[:3]
    assert list(mean.y) == profile.mean.tolist()
    assert list(high.y) == pytest.approx((profile.mean + profile.std).tolist())
    assert list(low.y) == pytest.approx((profile.mean - profile.std).tolist())


def test_spectrum_has_log_axes_and_cumulative_shares():
    eigenvalues = CLOUD().eigenvalues
    (line,) = traces("spectrum")
    assert list(line.y) == column(figure("spectrum").table, "eigenvalue") == eigenvalues.tolist()
    layout = figure("spectrum").draw().layout
    assert (layout.xaxis.type, layout.yaxis.type) == ("log", "log")
    shares = (eigenvalues.cumsum(0) / eigenvalues.sum()).tolist()
    assert column(figure("cumulative").table, "share_of_variance") == pytest.approx(shares)
    (drawn,) = traces("spectrum", subject_of(cloud_of(2, 6), "two rows", DATA))
    assert (drawn.mode, sum(value is not None for value in drawn.y)) == ("markers", 1)


def test_anisotropy_is_drawn_raw_and_centered():
    raw = [score.value for score in anisotropy(CLOUD().energies, 6)]
    centered = [score.value for score in anisotropy(CLOUD().eigenvalues, 6)]
    # The report computes eigenvectors too, which changes the rounding of eigenvalues.
    assert [(bar.name, list(bar.y)) for bar in traces("anisotropy")] == [
        ("raw", pytest.approx(raw, rel=1e-9)),
        ("centered", pytest.approx(centered, rel=1e-9)),
    ]


def test_cosine_histogram_is_share_of_pairs_raw_and_centered():
    counts = cosine_histogram(CLOUD().pair_rows).counts
    raw, _ = traces("cosines")
    assert list(raw.y)[:-1] == pytest.approx((counts / counts.sum()).tolist())
    assert (raw.line.shape, raw.x[-1], raw.y[-1]) == ("hv", 1, raw.y[-2])
    assert sum(column(figure("cosines").table, "pairs")) == 200 * 199 / 2
    assert figure("cosines").draw().layout.shapes[0].x0 == CLOUD().cosines.mean_cosine().value
    raw = full().measurements["cosine_histogram"]
    detail = {**raw.detail, "centred": {"counts": [0] * 99 + [3], "mean": -0.005, "rows": 3}}
    changed = measurement(raw.measure, raw.value, raw.n, detail)
    subject = Subject("x", {**full().measurements, "cosine_histogram": changed})
    outlines = traces("cosines", subject)
    assert [outline.name.split(",")[0] for outline in outlines] == ["raw", "centered"]
    assert outlines[1].y[99] == 1
    assert [shape.x0 for shape in figure("cosines", subject).draw().layout.shapes][1] == -0.005
    assert column(figure("cosines", subject).table, "pairs_centred")[99] == 3


def test_rogue_dimensions_sum_to_mean_cosine():
    contributions = CLOUD().cosines.rogue_dimensions().contributions
    stems = traces("rogue")[0]
    assert list(stems.y[1::3]) == column(figure("rogue").table, "contribution") == contributions.tolist()
    assert sum(contributions) == pytest.approx(CLOUD().cosines.mean_cosine().value)
    assert "Largest: 1 (" in figure("rogue").caption
    assert all(type(row[0]) is int for row in figure("rogue").table.rows)
    assert {type(result) for result in column(figure("cosines").table, "pairs")} == {int}
    assert np.isfinite(column(figure("rogue").table, "contribution")).all()


def test_twonn_line_has_slope_of_fit_and_points_are_thinned():
    fit = twonn(CLOUD().euclidean_pairs.neighbors)
    (line,) = traces("twonn", mode="lines")
    assert (line.x[0], line.y[0]) == (0, 0)
    assert line.y[1] / line.x[1] == pytest.approx(fit.dimension.value)
    assert column(figure("twonn").table, "log_mu") == fit.log_mu.tolist()
    fitted = next(trace for trace in traces("twonn", mode="markers") if trace.marker.color == palette.MAIN)
    assert list(fitted.y) == fit.minus_log_survival.tolist()
    log_mu = torch.linspace(0.001, 1, 5000, dtype=torch.float64)
    survival = -torch.log1p(-torch.arange(1, 5001) / 5001)
    detail = {"discard": 0.1, "log_mu": log_mu.tolist(), "minus_log_survival": survival.tolist()}
    subject = Subject("long", {"twonn": measurement("twonn", 2.0, 5000, detail, se=0.1)})
    drawn = figure("twonn", subject)
    assert "2,000 of 5,000 points drawn" in drawn.caption
    gray, colored = traces("twonn", subject, mode="markers")
    assert len(gray.x) + len(colored.x) == 2000
    assert (gray.marker.color, len(gray.x)) == (palette.QUIET, 200)
    assert gray.x[-1] == log_mu[-1]
    assert len(drawn.table.rows) == 5000
    assert sum(row[2] == "no" for row in drawn.table.rows) == 500


def test_barcode_is_sorted_and_prominent_bars_are_marked():
    sentence = " Prominent bars are marked. Their number is not the number of groups."
    assert sentence in figure("barcode").caption
    unmarked = Subject("plain", {"barcode": full().measurements["barcode"]})
    assert sentence not in figure("barcode", unmarked).caption
    bars = barcode(CLOUD().sample).flip(0).tolist()
    assert column(figure("barcode").table, "length") == bars
    prominent = int(full().measurements["prominent_bars"].value)
    outline, marked = traces("barcode")
    assert list(outline.x) == bars
    assert list(marked.x) == bars[:prominent]
    short_series = subject_of(WIDE(), "few")
    noise, long = traces("barcode", short_series)
    assert long.line.color == palette.MARKED
    assert [*long.x[1::3], *noise.x[1::3]] == column(figure("barcode", short_series).table, "length")


def test_sample_size_figure_skips_undefined_scores():
    names = [trace.name for trace in traces("sample_size", mode="lines+markers")]
    assert names == ["ζ = 0", "0.5", "bias-corrected"]
    plain = traces("sample_size", name="ζ = 0")[0]
    assert (list(plain.x), list(plain.y)) == ([8, 64], [0.2, 0.4])
    (dashed,) = [trace for trace in traces("sample_size", mode="lines") if trace.line.dash == "dash"]
    assert (dashed.name, list(dashed.y)) == ("all 200 rows", [0.45, 0.45])
    table = figure("sample_size").table
    assert column(table, "isoscore_mean") == [0.2, 0.4, None]
    assert column(table, "isoscore_star_zeta_0.5_sd") == [0.1, 0.1, 0.1]
    drawn = figure("sample_size")
    assert drawn.caption.startswith("Mean of up to 5 draws of that many of 200 rows, or fewer if rows run out")
    assert column(drawn.table, "draws") == [5, 3, 1]
    low, high, line = [result for result in traces("sample_size") if result.legendgroup == "isoscore_unbiased"]
    assert (list(low.x), list(low.y), list(high.y)) == ([8, 64], [0.3, 0.4], [0.7, 0.6])
    assert list(line.x) == [8, 64, 128]
    assert list(line.customdata) == [" (SD 0.20), 5 draws", " (SD 0.10), 3 draws", ", 1 draw"]
    assert line.hovertemplate.endswith("%{y:.3f}%{customdata}<extra></extra>")


def test_gaussian_example_shows_true_score():
    drawn = gaussian_example()
    truth = drawn.draw().data[-1]
    assert (truth.name, list(truth.x), list(truth.y)) == ("truth", [8, 20_000], [0.85696, 0.85696])
    assert truth.line.dash == "longdash"
    assert drawn.caption.endswith("Long dashes: the score of the distribution, 0.857.")


def test_projection_shows_names_or_rows_of_points():
    assert all(trace.text is None for trace in traces("projection", type="scatter"))
    names = Subject("named", {}, {"projection": DATA["projection"] | {"names": ["w", "w", "<i>", "w"]}})
    projection = figure("projection", names)
    assert projection.table.columns == ["name", "component_1", "component_2", "label"]
    assert projection.table.rows[2] == ["<i>", 2.0, 0.5, "b"]
    drawn = [trace for trace in projection.draw().data if trace.type == "scatter"]
    assert {text for trace in drawn for text in trace.text} == {"&lt;i&gt;", "w"}
    assert all(trace.hovertemplate.startswith("%{text}<br>") for trace in drawn)
    numbered = Subject("numbered", {}, {"projection": DATA["projection"] | {"rows": [7, 0, 3, 2]}})
    table = figure("projection", numbered).table
    assert (table.columns[0], [row[0] for row in table.rows]) == ("row", [7, 0, 3, 2])


def test_projection_colors_labels_over_density():
    drawn = traces("projection", type="scatter")
    assert [trace.name for trace in drawn] == ["no label (1)", "a (2)", "b (1)"]
    assert [trace.marker.color for trace in drawn] == [palette.QUIET, *palette.SERIES[:2]]
    assert (list(drawn[1].x), list(drawn[1].y)) == ([0.0, 3.0], [1.0, 0.0])
    assert traces("projection")[0].z[0] == pytest.approx((log(601), log(391)))
    layout = figure("projection").draw().layout
    assert layout.yaxis.scaleanchor == "x"
    assert layout.xaxis.title.text == "Component 1 (50.0% of variance)"
    assert "4 of 1,000 points drawn" in figure("projection").caption
    assert "10 beyond its edges" in figure("projection").caption
    assert figure("projection").table.rows[2] == [2.0, 0.5, "b"]
    codes = [code for code in range(10) for _ in range(10 - code)]
    data = {**DATA["projection"], "x": codes, "y": codes, "density": None}
    labels = {"names": [str(code) for code in range(10)], "codes": codes}
    drawn = traces("projection", Subject("x", {}, {"projection": {**data, "labels": labels}}))
    assert [trace.name for trace in drawn][:2] == ["other labels (3)", "0 (10)"]
    assert len(drawn) == 1 + len(palette.SERIES)


def test_space_draws_three_components_colored_by_label():
    drawn = traces("space")
    assert {trace.type for trace in drawn} == {"scatter3d"}
    assert [(trace.name, trace.marker.color) for trace in drawn][1] == ("a (2)", palette.SERIES[0])
    assert (list(drawn[1].x), list(drawn[1].y), list(drawn[1].z)) == ([0.0, 3.0], [1.0, 0.0], [0.0, -0.5])
    space = figure("space")
    ratio = space.draw().layout.scene.aspectratio
    assert (ratio.y / ratio.x, ratio.z / ratio.x) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert "4 of 1,000 points drawn." in space.caption
    assert "50.0%, 25.0%, 12.5% of the variance" in space.caption
    assert space.table.columns == ["component_1", "component_2", "component_3", "label"]
    assert space.table.rows[2] == [2.0, 0.5, 0.0, "b"]


@pytest.mark.parametrize(
    ("changed", "why"), [({"shares": [0.8, 0.2, 0.0]}, "lie in a plane"), ({"z": None}, "only two components")]
)
def test_space_without_third_component_states_reason(changed, why):
    data = {name: result for name, result in (DATA["projection"] | changed).items() if result is not None}
    drawn = figure("space", Subject("flat", {}, {"projection": data}))
    assert why in drawn.empty
    assert not drawn.draw().data


@pytest.mark.parametrize("slug", ALL_FIGURES)
def test_overlaid_clouds_have_own_colors_and_names(slug):
    overlaid = figure(slug, full(), wide())
    drawn = overlaid.draw().data
    colors = {str(trace.line.color) for trace in drawn if trace.type == "scatter"}
    colors |= {str(trace.marker.color) for trace in drawn}
    assert set(palette.SERIES[:2]) <= colors
    assert "(first)" in overlaid.caption or "each" in overlaid.caption
    table = overlaid.table
    names = {row[0] for row in table.rows} if table.columns[0] == "subject" else set(table.columns)
    assert all(any(name in str(result) for result in names) for name in ("first", "second"))


def test_unequal_dimensions_leave_cells_empty():
    table = figure("spectrum", full(), wide()).table
    assert table.columns == ["component", "eigenvalue: first", "eigenvalue: second"]
    assert column(table, "eigenvalue: first")[6:] == [None] * 3
    assert column(table, "eigenvalue: second") == WIDE().eigenvalues.tolist()
    assert "n = 200 (first), 80 (second) rows" in figure("spectrum", full(), wide()).caption


@pytest.mark.parametrize("slug", ALL_FIGURES)
def test_undefined_subject_is_named_with_reason(slug):
    assert f"Not drawn: flat: {REASON}" in figure(slug, undefined("flat"), full()).caption
    single = figure(slug, undefined("flat"))
    assert single.empty == REASON
    assert not single.draw().data


@pytest.mark.parametrize("slug", [slug for slug in ALL_FIGURES if slug != "projection"])
def test_undefined_subject_reserves_its_color(slug):
    colors = {trace.line.color or trace.marker.color for trace in traces(slug, undefined("flat"), full())}
    assert palette.SERIES[1] in colors
    assert palette.SERIES[0] not in colors


def test_unmeasured_subject_is_named_and_value_alone_has_no_figure():
    assert "Not drawn: bare: Not measured for this embedding." in figure("twonn", full(), Subject("bare", {})).caption
    single = Subject("before", {"twonn": measurement("twonn", 7.5, 100)})
    assert draw_figures([single, Subject("after", single.measurements)]) == []
    (undefined_figure,) = draw_figures([Subject("x", {"twonn": measurement("twonn", None, 100, reason=REASON)})])
    assert undefined_figure.empty == REASON
    assert figure("twonn", full(), single).caption.endswith(" Not drawn: before: Only its value is stored.")


def test_subject_names_are_escaped_and_shortened():
    subject = subject_of(WIDE(), "<b>%{x}</b>")
    (first, _) = traces("spectrum", subject, wide())
    assert first.name == "&lt;b&gt;%&#123;x}&lt;/b&gt;"
    assert first.hovertemplate.startswith(first.name)
    names = [f"sst2 · all-MiniLM-L6-v2 · layer {i}, mean" for i in (0, 3)]
    spectrum = figure("spectrum", *(Subject(name, full().measurements) for name in names))
    drawn = [(line.name, line.mode) for line in spectrum.draw().data]
    assert drawn == [("layer 0, mean", "lines"), ("layer 3, mean", "lines")]
    assert spectrum.table.columns[1].endswith(f": {names[0]}")


@pytest.mark.parametrize("subjects", [[full], [full, wide, undefined], [undefined]], ids=["one", "three", "none"])
def test_plots_and_tables_contain_no_nan(subjects):
    for result in draw_figures([subject() for subject in subjects]):
        strict(result.draw().to_json())
        assert "nan" not in result.table.csv().lower().replace("undefined", "")


def test_eight_subjects_are_drawn():
    eight = [Subject(f"number {i}", full().measurements, DATA) for i in range(8)]
    for result in draw_figures(eight):
        assert result.draw().data
        assert result.table.rows


OUTLIER = {"dimension": 1, "rules": ["mean_mad", "std_mad"]}
PROFILE = {"mean": [0.0, 5.0, 0.0], "std": [1.0, 2.0, 1.0], "outliers": [OUTLIER]}


def activation(flagged=(), **changed):
    (figure,) = draw_figures([replace(subject_with("activation_profile", PROFILE | changed), flagged=flagged)])
    return figure


def test_dimensions_of_findings_are_marked_above_band():
    figure, quiet = activation([1]), activation(outliers=[])
    assert "Marked: 1 dimension that findings name (1)." in figure.caption
    assert "rule flags 1 dimension as outliers" in figure.caption
    assert "n = 100 rows" in figure.caption
    assert "No finding names a dimension." in quiet.caption
    mark = figure.draw().data[-1]
    assert (mark.x[0], mark.y[0], mark.text[0]) == (1, 7.0, "1")
    rules = f"{OUTLIER_RULES['mean_mad']}; {OUTLIER_RULES['std_mad']}"
    assert figure.table.rows[1] == [1, 5.0, 2.0, rules]
    assert figure.draw().layout.yaxis.autorangeoptions.include == 7.0 + 0.2 * (7.0 - -1.0)
    assert quiet.draw().layout.yaxis.autorangeoptions.include is None


def test_unknown_outlier_rule_keeps_its_slug():
    figure = activation(outliers=[{"dimension": 0, "rules": ["former_rule"]}])
    assert figure.table.rows[0] == [0, 0.0, 1.0, "former_rule"]
    figure = activation(range(20), mean=[0.0] * 20, std=[1.0] * 20, outliers=[])
    assert "20 dimensions" in figure.caption
    assert "and 12 more" in figure.caption


EDGES = {"edges": [-1.0, 0.0, 0.5, 1.0]}


def figure_of(slug, measure, detail, **fields):
    return next(result for result in draw_figures([subject_with(measure, detail, **fields)]) if result.slug == slug)


def cosines(counts, rows, mean, of_rows):
    histogram = measurement("cosine_histogram", 0.2, rows, {**EDGES, "counts": counts, "rows": rows})
    exact = measurement("mean_cosine", mean, of_rows)
    (result,) = draw_figures([Subject("x", {"cosine_histogram": histogram, "mean_cosine": exact})])
    return result


def test_zero_eigenvalues_are_not_drawn_and_shares_end_at_one():
    (line,) = figure_of("spectrum", "spectrum", {"eigenvalues": [4.0, 1.0, 0.0]}).draw().data
    assert list(line.y) == [4.0, 1.0, None]
    drawn = figure_of("cumulative", "spectrum", {"eigenvalues": [3.0, 2.0, 1.0]})
    assert [row[1] for row in drawn.table.rows] == pytest.approx([0.5, 5 / 6, 1.0])
    assert "Half of the variance lies in 1 component of 3" in drawn.caption


def test_anisotropy_without_centered_values_states_reason():
    raw = measurement("anisotropy_raw", 1.0, 10, {"values": [1.0, 0.0]})
    centered = measurement("anisotropy_centred", None, 10, reason="All points are equal.")
    (result,) = draw_figures([Subject("x", {"anisotropy_raw": raw, "anisotropy_centred": centered})])
    assert "Centered, it is undefined: All points are equal." in result.caption
    assert [row[2] for row in result.table.rows] == [None, None]
    assert [bar.name for bar in result.draw().data] == ["raw"]


def test_caption_discloses_sample_of_cosines():
    assert "pairs among 2,000 of 8,000 rows" in cosines([0, 3, 1], 2000, 0.25, 8000).caption
    assert "all pairs of 2,000 rows" in cosines([0, 3, 1], 2000, 0.25, 2000).caption
    assert "Fewer than two rows" in cosines([0, 0, 0], 1, None, 1).empty


def test_canceling_contributions_have_no_shares():
    alike = figure_of("rogue", "rogue_dimensions", {"contributions": [0.1, 0.3]})
    assert [row[2] for row in alike.table.rows] == pytest.approx([0.25, 0.75])
    assert "Largest: 1 (0.30, 75% of the mean)." in alike.caption
    cancelling = figure_of("rogue", "rogue_dimensions", {"contributions": [0.3, -0.29]})
    assert [row[2] for row in cancelling.table.rows] == [None, None]
    assert "Largest: 0 (0.30)." in cancelling.caption
    below = figure_of("rogue", "rogue_dimensions", {"contributions": [-0.1, -0.2]})
    assert "none: no dimension adds to it" in below.caption
    subject = subject_with("rogue_dimensions", {"contributions": [0.0, 0.3, 0.2]})
    (marked,) = (result for result in draw_figures([replace(subject, flagged=[1])]) if result.slug == "rogue")
    assert list(marked.draw().data[-1].text) == ["1"]


@pytest.mark.parametrize(("points", "kind"), [(1000, "scatter"), (1001, "scattergl")])
def test_few_points_are_drawn_without_webgl(points, kind):
    plane = {"n": points, "x": [0.0] * points, "y": [1.0] * points, "shares": [0.5, 0.25], "labels": None}
    cloud = Subject("cloud", {}, {"projection": plane | {"density": None}})
    drawn = next(result for result in draw_figures([cloud]) if result.slug == "projection").draw()
    assert [trace.type for trace in drawn.data] == [kind]
