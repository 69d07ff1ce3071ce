from math import sqrt

import pytest

from app.db.models import RunStatus
from app.figures.labels import field_in_sentence
from app.figures.palette import METHODS, lambda_color
from app.results.figures.baseline import method_bars
from app.results.figures.parallel import parallel_coordinates
from app.results.figures.profiles import activation_profiles, measure_by_layer
from app.results.figures.scatter import scatter
from app.results.figures.scatter_points import ScatterStyle
from app.results.figures.trivial import TrivialPredictor
from isotropy.catalog import Regularizer
from tests.factories import reported
from tests.unit.figures.rows import T95, run, sweep

ISTAR, COSREG = Regularizer.ISTAR, Regularizer.COSREG


def bars(*runs, metric="accuracy"):
    return method_bars(sweep(*runs), metric)


def test_bar_is_best_setting_of_method_per_sign_of_lambda():
    lams = (-3.0, -1.0, 0.0, 1.0)
    runs = [run(lam, seed, performance=0.8 - 0.01 * abs(lam) + 0.02 * seed) for lam in lams for seed in (0, 1)]
    figure = bars(*runs, run(1.0, regularizer=COSREG, performance=0.7))
    assert [row[:6] for row in figure.table.rows] == [
        ["I-STAR, λ < 0", "I-STAR", -1.0, 2, 2, pytest.approx(0.8)],
        ["none", "none", 0.0, 1, 2, pytest.approx(0.81)],
        ["I-STAR, λ > 0", "I-STAR", 1.0, 1, 2, pytest.approx(0.8)],
        ["CosReg, λ > 0", "CosReg", 1.0, 1, 1, 0.7],
    ]
    plot = figure.draw()
    assert [trace.x[0] for trace in plot.data] == [row[5] for row in figure.table.rows]
    colors = [METHODS[ISTAR], lambda_color(0), METHODS[ISTAR], METHODS[COSREG]]
    assert [trace.marker.color for trace in plot.data] == colors
    ticks = ["I-STAR, λ < 0<br>λ = −1", "none", "I-STAR, λ = 1", "CosReg, λ = 1"]
    assert list(plot.layout.yaxis.ticktext) == ticks
    assert [trace.error_x.visible for trace in plot.data] == [True, True, True, False]


def test_repeated_seed_counts_once_and_bars_begin_at_zero():
    table = bars(run(1.0, 0, 0.25), run(1.0, 0, 0.75, batch_size=32)).table
    assert [dict(zip(table.columns, row, strict=True))["seeds"] for row in table.rows] == [1]
    plot = bars(run(0.0, performance=-0.2), run(1.0, performance=0.5), metric="matthews").draw()
    assert plot.layout.xaxis.title.text == "Matthews correlation (−1 to 1)"
    low, high = plot.layout.xaxis.range
    assert low < -0.2 < 0.5 < high
    assert bars(run(0.0, performance=0.0), metric="matthews").draw().layout.xaxis.range == (0, 1)


def test_caption_states_choice_and_seeds():
    caption = bars(run(-3.0), run(-1.0), run(0.0)).caption
    assert "best of up to 2 settings, chosen on the same rows" in caption
    single = bars(run(0.0), run(1.0)).caption
    assert single == "Each is one run (n = 1 seed); an interval needs two seeds or more."
    pairs = bars(*(run(lam, seed) for lam in (0.0, 1.0) for seed in (0, 1))).caption
    assert pairs.startswith("Means over seeds (n = 2) with 95% confidence intervals.")


def test_value_is_written_beyond_bar_and_interval():
    signs = ((0.0, -1), (1.0, 1))
    runs = [run(lam, seed, performance=sign * (0.3 + 0.02 * seed)) for lam, sign in signs for seed in (0, 1)]
    layout = bars(*runs, metric="matthews").draw().layout
    texts = [(note.text.strip(), note.xanchor) for note in layout.annotations]
    assert texts == [("−0.310", "right"), ("0.310", "left")]
    start, end = (note.x for note in layout.annotations)
    assert (start, end) == (pytest.approx(-0.31 - T95 * 0.01, rel=1e-4), pytest.approx(-start))
    low, high = layout.xaxis.range
    assert start - low == pytest.approx(high - end) == pytest.approx(0.22 * (end - start))


def test_undefined_and_pruned_settings_are_left_out_with_note():
    assert "first run has finished" in bars(run(performance=None, status=RunStatus.QUEUED), metric="f1").empty
    undefined = run(1.0, performance=None, performance_reason="All predictions are equal.")
    sentence = "Not drawn, because performance is undefined: 1 run. All predictions are equal."
    assert bars(run(0.0), undefined).caption.endswith(sentence)
    assert bars(undefined).empty == sentence
    pruned = run(1.0, 0, 0.99), run(1.0, 1, None, status=RunStatus.PRUNED)
    figure = bars(run(0.0), run(2.0, performance=0.7), *pruned)
    assert [row[1:4] for row in figure.table.rows] == [[0.0, 1, 1], [2.0, 1, 1]]
    sentence = "Left out, because the study pruned some of their runs, and the finished ones overstate them: λ = 1."
    assert figure.caption.endswith(sentence)
    assert bars(*pruned).empty == sentence


PREDICTOR = "always “0”, the most frequent class of the training rows"


def judged(lam, seed=0, *, trivial=0.5, constant=None, **columns):
    row = run(lam, seed, **columns)
    metrics = {"accuracy": trivial, "f1": None, "matthews": 0.0}
    row.learning = {"trivial": {"predictor": PREDICTOR, "metrics": metrics, "reasons": {"f1": "why"}}}
    if constant is not None:
        row.learning.constant_prediction = constant
    return row


LEARNED = [*(judged(0.0, seed, performance=0.55 + 0.01 * seed) for seed in (0, 1)), judged(-1.0, performance=0.6)]
JUDGED = sweep(*LEARNED, judged(5.0, performance=0.5, isoscore_star=0.9))


def by_isotropy(table, metric="accuracy", **style):
    return scatter(table, metric, ScatterStyle(x="isoscore_star", **style))


def by_lambda(table, metric="accuracy"):
    return scatter(table, metric, ScatterStyle(x="lam"))


FIGURES = pytest.mark.parametrize("figure_of", [by_isotropy, by_lambda, method_bars])


def lines(plot):
    return [shape for shape in plot.layout.shapes if shape.line.dash == "dash"]


def crosses(plot):
    return [trace for trace in plot.data if trace.type == "scatter" and trace.marker.symbol == "x-thin"]


def names(plot):
    return [shape.name for shape in lines(plot) if plot.layout.showlegend and shape.showlegend]


@FIGURES
def test_trivial_predictor_is_a_line_and_failed_learning_a_cross(figure_of):
    figure = figure_of(JUDGED, "accuracy")
    plot = figure.draw()
    (line,), (cross,) = lines(plot), crosses(plot)
    axis, other_axis = ("x", "y") if figure_of is method_bars else ("y", "x")
    assert (line[f"{axis}0"], line[f"{axis}1"], line[f"{other_axis}ref"]) == (0.5, 0.5, "paper")
    assert names(plot) == ["trivial predictor 0.500"]
    assert not any("trivial" in note.text for note in plot.layout.annotations)
    assert f"The trivial predictor (dashed line or arrow) scores 0.500: {PREDICTOR}." in figure.caption
    assert len(cross.x) == 1
    assert "Crosses: 1 run learned nothing." in figure.caption
    named_rows = (dict(zip(figure.table.columns, row, strict=True)) for row in figure.table.rows)
    rows = {row["lambda"]: row for row in named_rows}
    assert {row["trivial_performance"] for row in rows.values()} == {0.5}
    assert (rows[5.0]["runs_that_learned_nothing"], rows[0.0]["runs_that_learned_nothing"]) == (1, 0)
    assert any("learned nothing: 1 seed" in str(trace.hovertext) for trace in plot.data)


@FIGURES
def test_runs_without_a_trivial_score_have_no_line(figure_of):
    figure = figure_of(sweep(run(0.0), run(1.0)), "accuracy")
    plot = figure.draw()
    assert (lines(plot), crosses(plot)) == ([], [])
    assert "trivial" not in figure.caption
    assert not {"trivial_performance", "runs_that_learned_nothing"} & set(figure.table.columns)


def test_table_has_reasons_and_distant_line_is_an_arrow():
    table = by_isotropy(JUDGED, seeds=True).table
    reasons = [row[table.columns.index("learned_nothing")] for row in table.rows]
    assert [reason is not None for reason in reasons] == [False, False, False, True]
    plot = by_lambda(sweep(*(judged(lam, performance=0.9 + lam / 100) for lam in (0.0, 1.0, 2.0)))).draw()
    assert names(plot) == ["↓ trivial predictor 0.500"]
    assert plot.layout.yaxis.range[0] > 0.85
    matthews = [judged(0.0, metric="matthews"), judged(0.0, 1, metric="matthews")]
    assert TrivialPredictor.from_runs(JUDGED, matthews).score == 0
    waiting = judged(5.0, performance=0.5, status=RunStatus.RUNNING)
    assert TrivialPredictor.from_runs(sweep(*LEARNED, waiting), [waiting]).no_learning_notes == {}


@pytest.mark.parametrize(("performance", "constant", "n_crosses"), [(0.7, "“1”", 1), (None, "2.35", 0)])
def test_constant_predictions_are_marked_at_any_performance(performance, constant, n_crosses):
    figure = by_lambda(sweep(*LEARNED, judged(5.0, performance=performance, constant=constant)))
    assert "Crosses: 1 run learned nothing." in figure.caption
    assert len(crosses(figure.draw())) == n_crosses


def test_caption_counts_crosses_without_collapsed_settings():
    table = sweep(*LEARNED, judged(5.0, performance=0.5), judged(1.0, performance=0.5))
    figure = scatter(table, "accuracy", collapsed={setting for setting in table.settings if setting.lam == 5.0})
    assert "Crosses: 1 more run learned nothing." in figure.caption


RUNS = [
    run(lam, seed, performance=0.5 + 0.1 * seed, isoscore_star=0.25 + 0.01 * lam, batch_size=size)
    for size in (16, 32)
    for lam in (-1.0, 0.0, 5.0)
    for seed in (0, 1)
]
BATCH_SIZES = sweep(*RUNS, batch_size=[16, 32])


def draw(table):
    (trace,) = parallel_coordinates(table, "accuracy").draw().data
    return trace, {axis.name: axis for axis in trace.dimensions}


def axis_labeled(table, field):
    label = field_in_sentence(field)
    return next(axis for axis in draw(table)[0].dimensions if label.startswith(axis.label[:8]))


def test_axes_are_varied_settings_then_results():
    figure = parallel_coordinates(BATCH_SIZES, "accuracy")
    assert figure.table.columns == ["lam", "batch_size", "seed", "isoscore_star", "performance"]
    assert (figure.table.rows[0], len(figure.table.rows)) == ([-1.0, 16, 0, 0.24, 0.5], 12)
    trace, axes = draw(BATCH_SIZES)
    assert list(axes) == figure.table.columns
    assert [axis.label for axis in trace.dimensions] == ["λ", "batch size", "seed", "IsoScore★", "Accuracy"]
    assert "accepts it from the keyboard" in figure.caption
    assert (list(axes["lam"].ticktext), list(axes["lam"].values)[:6]) == (["−1", "0", "5"], [0, 0, 1, 1, 2, 2])
    assert trace.meta["steps"] == [[-1.0, 0.0, 5.0], [16, 32], [0, 1], [], []]
    assert (axes["performance"].tickvals, axes["performance"].tickformat) == (None, ".3~g")


@pytest.mark.parametrize(
    ("lams", "study"), [([0.0, 0.5, 0.625, 3.0], {"over": True}), ([*map(float, range(21))], None)]
)
def test_searched_or_many_values_keep_their_spacing(lams, study):
    axis = draw(sweep(*(run(lam, study=study) for lam in lams)))[1]["lam"]
    assert (axis.tickvals, list(axis.values)) == (None, lams)


def test_line_color_encodes_lambda_and_regularizers_have_an_axis():
    trace, _ = draw(BATCH_SIZES)
    lams = sorted({row.lam for row in RUNS})
    assert [lams[index] for index in trace.line.color] == [row.lam for row in RUNS]
    assert (trace.line.cmin, trace.line.cmax) == (0, len(lams) - 1)
    assert [color for _, color in trace.line.colorscale] == [lambda_color(lam) for lam in lams]
    single, _ = draw(sweep(run(1.0), run(1.0, seed=1)))
    assert [color for _, color in single.line.colorscale] == [lambda_color(1.0)] * 2
    _, axes = draw(sweep(run(0.0), run(1.0), run(1.0, regularizer=Regularizer.COSREG)))
    assert list(axes["regularizer"].ticktext) == ["none", "I-STAR", "CosReg"]
    assert "regularizer" not in draw(BATCH_SIZES)[1]


@pytest.mark.parametrize(("field", "values"), [("fixed_regularizers", [{}, {"cosreg": 1.0}]), ("patience", [None, 3])])
def test_axis_of_unsearchable_setting_has_no_field(field, values):
    runs = [run(1.0, seed=seed, **{field: value}) for seed, value in enumerate(values)]
    assert axis_labeled(sweep(*runs, **{field: values}), field).name == ""


@pytest.mark.parametrize("field", ["hidden", "status", "data"])
def test_custom_script_setting_has_no_field(field):
    runs = [run(1.0, seed) for seed in (0, 1)]
    for row, value in zip(runs, (128, 256), strict=True):
        row.config = reported(row, **{field: value})
    axis = axis_labeled(sweep(*runs, **{field: [128, 256]}), field)
    assert (axis.name, list(axis.ticktext)) == ("", ["128", "256"])


def test_unreported_values_are_unknown():
    runs = [run(0.0), run(1.0, zeta=0.2, batch_size=16), run(1.0, 1, zeta=0.5, batch_size=8)]
    runs[0].config = reported(runs[0])
    table = sweep(*runs, batch_size=["unknown", 16, 8])
    rows = [row[:3] for row in parallel_coordinates(table, "accuracy").table.rows]
    assert rows == [[0.0, None, "unknown"], [1.0, 0.2, 16], [1.0, 0.5, 8]]
    trace, axes = draw(table)
    assert trace.meta["steps"][1:3] == [[None, 0.2, 0.5], [8, 16, "unknown"]]
    assert list(axes["zeta"].ticktext) == ["–", "0.2", "0.5"]
    assert "zeta" not in draw(sweep(run(0.0, zeta=0.5), run(1.0, zeta=0.2)))[1]


def test_runs_without_value_are_counted():
    waiting = run(1.0, status=RunStatus.QUEUED, performance=None)
    caption = parallel_coordinates(sweep(run(0.0), run(1.0, performance=None), waiting), "accuracy").caption
    assert caption.startswith("1 finished run, one line per run, colored by λ. Not drawn, because a value is "
                              "undefined: 1 run.")  # fmt: skip
    assert "first run has finished" in parallel_coordinates(sweep(waiting), "accuracy").empty


SWEEP = sweep(*(run(lam, seed) for lam in (0.0, 1.0) for seed in (0, 1)))
WAITING = sweep(run(1.0, status=RunStatus.QUEUED))


def profile(*mean, std=1.0, n=40):
    return {"n": n, "mean": list(mean), "std": [std] * len(mean)}


def profiles_of(table, *activations):
    data = {row.id: activation for row, activation in zip(table.runs, activations, strict=False)}
    return activation_profiles(table, data)


def layers(*values, n=872, reasons=()):
    return {"values": list(values), "reasons": list(reasons) or [None] * len(values), "n": n}


def test_profile_of_single_run_has_band():
    figure = profiles_of(sweep(run(1.0)), profile(0.5, -2.0, std=0.25))
    assert figure.table.columns == ["dimension", "mean", "standard_deviation"]
    assert list(figure.table.rows) == [[0, 0.5, 0.25], [1, -2.0, 0.25]]
    low, high, line = figure.draw().data
    assert (list(low.y), list(high.y), list(line.y)) == ([0.25, -2.25], [0.75, -1.75], [0.5, -2.0])
    assert "n = 40 validation rows." in figure.caption


def test_profiles_average_seeds_and_overlay_settings():
    table = sweep(run(0.0, 0), run(0.0, 1), run(1.0))
    figure = profiles_of(table, profile(1.0), profile(2.0, std=2.0, n=30), profile(5.0))
    assert figure.table.columns[1:3] == ["mean: λ = 0", "standard_deviation: λ = 0"]
    assert list(figure.table.rows) == [[0, 1.5, pytest.approx(sqrt(2.5)), 5.0, 1.0]]
    assert [trace.name for trace in figure.draw().data] == ["λ = 0", "λ = 1"]
    assert "n = 30 validation rows; averaged over seeds (n = 1 to 2). The table" in figure.caption
    repeated = sweep(run(0.0, 0, batch_size=8), run(0.0, 0, batch_size=32), run(0.0, 1))
    figure = profiles_of(repeated, profile(1.0), profile(3.0, std=3.0), profile(6.0, std=5.0))
    assert list(figure.table.rows) == [[0, 4.0, pytest.approx(sqrt((5 + 25) / 2))]]
    assert "averaged over seeds (n = 2)." in figure.caption


def test_models_of_different_width_are_not_averaged():
    runs = run(0.0, model="narrow"), run(0.0, model="wide"), run(1.0)
    by_model = profiles_of(sweep(*runs[:2], model=["narrow", "wide"]), profile(1.0), profile(2.0, 3.0))
    assert list(by_model.table.rows) == [[0, 1.0, 1.0, 2.0, 1.0], [1, None, None, 3.0, 1.0]]
    assert by_model.draw().layout.xaxis.range == (-0.5, 1.5)
    sentence = (
        "Not drawn, because their models have different numbers of dimensions: λ = 0. Group by model to draw them."
    )
    figure = profiles_of(sweep(*runs), profile(1.0), profile(2.0, 3.0), profile(4.0))
    assert list(figure.table.rows) == [[0, 4.0, 1.0]]
    assert figure.caption.endswith(sentence)
    assert profiles_of(sweep(*runs[:2]), profile(1.0), profile(2.0, 3.0)).empty == sentence


def test_figures_without_data_explain():
    (first, *_) = SWEEP.runs
    assert "first run has finished" in profiles_of(WAITING).empty
    assert profiles_of(sweep(run())).empty == "No run stored the activation of its dimensions."
    undefined = {first.id: layers(None, reasons=["All points are one."])}
    assert measure_by_layer(SWEEP, undefined, "twonn").empty == "It is undefined in every layer: All points are one."
    assert measure_by_layer(SWEEP, {}, "twonn").empty == "It was not measured."
    assert "first run has finished" in measure_by_layer(WAITING, {}, "twonn").empty


def test_measure_by_layer_averages_seeds_with_gaps():
    figure = measure_by_layer(SWEEP, {row.id: layers(9.0, 10.0 + row.seed) for row in SWEEP.runs}, "twonn")
    assert figure.table.columns == ["lambda", "layer", "seeds", "twonn_mean", "ci95_half_width"]
    half_width = pytest.approx(T95 * 0.5, rel=1e-4)
    assert figure.table.rows == [
        row for lam in (0, 1) for row in ([lam, 1, 2, 9.0, 0.0], [lam, 2, 2, 10.5, half_width])
    ]
    line = figure.draw().data[1]
    assert (line.name, list(line.y), list(line.error_y.array)) == ("λ = 1", [9.0, 10.5], [0.0, half_width])
    assert "872 validation rows" in figure.caption
    assert "(n = 2)" in figure.caption
    first, second, *_ = SWEEP.runs
    figure = measure_by_layer(SWEEP, {first.id: layers(None, 8.0), second.id: layers(None, 6.0, n=800)}, "twonn")
    assert figure.table.rows == [[0, 1, 0, None, None], [0, 2, 2, 7.0, pytest.approx(T95, rel=1e-4)]]
    assert "800 to 872 validation rows" in figure.caption
    single = sweep(run(1.0))
    figure = measure_by_layer(single, {single.runs[0].id: layers(9.0, n=None)}, "twonn")
    assert figure.caption == "By layer, of the sentence vectors. Range: (0, ∞)."
    assert figure.draw().layout.showlegend is False
