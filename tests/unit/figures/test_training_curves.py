import pytest

from app.db.models import RunStatus
from app.figures.palette import lambda_color, with_opacity
from app.results.figures import sweep_curves
from app.results.figures.sweep_curves import PENALTY, TASK_LOSS, CurveStyle, logged_curves, smooth
from app.results.run_data import LoggedValues
from isotropy.catalog import Regularizer
from tests.unit.figures.rows import T95, run, step, sweep

SWEEP = sweep(run(-1.0, 0), run(-1.0, 1), run(0.0, 0))
BY_RUN = {row.id: [(10, 0.7 + 0.1 * row.seed), (20, 0.5)] for row in SWEEP.runs}
LOGGED = [step(0, layers={"isoscore_star": [0.3, 0.2]}), step(10, 0.7, -0.5), step(20, 0.5, -0.6)]
RUN_FIGURES = pytest.mark.parametrize("figure_of", [sweep_curves.loss_curve, sweep_curves.penalty_curve])


def means_of(*curves):
    return dict(zip(SWEEP.settings, map(sweep_curves.mean_curve, map(enumerate, curves)), strict=True))


def test_mean_curve_counts_each_seed_with_a_value_once():
    first, second = sweep_curves.mean_curve([(0, [(10, 0.5), (20, 0.7)]), (1, [(10, 0.7)])])
    assert (first[0], first[1].mean, first[1].n) == (10, pytest.approx(0.6), 2)
    assert (second[0], second[1].mean, second[1].n, second[1].half_width) == (20, 0.7, 1, None)
    ((_, mean),) = sweep_curves.mean_curve([(0, [(10, 0.5)]), (0, [(10, 0.7)]), (1, [(10, 0.8)])])
    assert (mean.mean, mean.n) == (pytest.approx(0.7), 2)


def test_band_is_interval_and_stops_at_single_run():
    means = means_of([[(10, 0.5), (20, 0.7)], [(10, 0.7), (20, 0.9)]], [[(10, 0.1), (20, 0.1)]])
    band, *lines = sweep_curves.mean_traces(SWEEP, means, bands=True)
    reach = T95 * 0.1
    assert list(band.x) == [10, 20, 20, 10]
    assert list(band.y) == pytest.approx([0.6 - reach, 0.8 - reach, 0.8 + reach, 0.6 + reach], rel=1e-4)
    assert (band.fill, band.fillcolor, band.showlegend) == ("toself", with_opacity(lambda_color(-1), 0.16), False)
    assert [trace.legendgroup for trace in (band, *lines)] == ["λ = −1", "λ = −1", "λ = 0"]
    assert [list(trace.y) for trace in lines] == [pytest.approx([0.6, 0.8]), [0.1, 0.1]]
    pair = [[(i, 0.5) for i in range(5)], [(i, 0.7) for i in (0, 1, 3, 4)]]
    *bands, _, _ = sweep_curves.mean_traces(SWEEP, means_of(pair, [[(0, 0.1)]]), bands=True)
    assert [list(band.x) for band in bands] == [[0, 1, 1, 0], [3, 4, 4, 3]]


def test_bands_need_seeds_and_few_settings():
    means = means_of([[(0, 0.5)], [(0, 0.7)]], [[(0, 0.1)]])
    assert sweep_curves.can_draw_bands(means)
    assert not sweep_curves.can_draw_bands(means_of([[(0, 0.5)]], [[(0, 0.1)]]))
    assert [trace.fill for trace in sweep_curves.mean_traces(SWEEP, means, bands=False)] == [None, None]
    table = sweep(*(run(float(lam), seed) for lam in range(9) for seed in (0, 1)))
    figure = logged_curves(table, TASK_LOSS, {row.id: [(10, 0.1 * row.seed)] for row in table.runs})
    assert [trace.fill for trace in figure.draw().data] == [None] * 9
    assert "The intervals are in the table" in figure.caption
    assert figure.table.rows[0][-1] == pytest.approx(T95 * 0.05, rel=1e-4)


def test_line_is_mean_of_setting_and_runs_are_optional():
    figure = logged_curves(SWEEP, TASK_LOSS, BY_RUN)
    assert figure.table.columns == ["lambda", "step", "seeds", "task_loss_mean", "ci95_half_width"]
    assert figure.table.rows[0] == [-1, 10, 2, pytest.approx(0.75), pytest.approx(T95 * 0.05, rel=1e-4)]
    assert figure.table.rows[2:] == [[0, 10, 1, 0.7, None], [0, 20, 1, 0.5, None]]
    assert figure.caption == (
        "Task loss without the penalty. Means over seeds (n = 1 to 2) with 95% confidence intervals. "
        "As logged: no smoothing."
    )
    methods = [(0.0, Regularizer.ISTAR), (1.0, Regularizer.ISTAR), (-1.0, Regularizer.COSREG)]
    runs = [run(lam, regularizer=method) for lam, method in methods]
    traces = logged_curves(sweep(*runs), TASK_LOSS, {row.id: [(10, 0.7), (20, 0.5)] for row in runs}).draw().data
    assert [trace.name for trace in traces] == ["CosReg, λ = −1", "baseline", "I-STAR, λ = 1"]
    assert "CosReg, λ = −1" in traces[0].hovertemplate
    figure = logged_curves(SWEEP, TASK_LOSS, BY_RUN, style=CurveStyle(seeds=True))
    assert figure.table.columns == ["lambda", "seed", "step", "task_loss"]
    assert figure.table.rows[2:4] == [[-1, 1, 10, pytest.approx(0.8)], [-1, 1, 20, 0.5]]
    traces = figure.draw().data
    assert len(traces) == 4
    assert (list(traces[0].x), list(traces[0].y)) == (
        [10, 20, None, 10, 20], [0.7, 0.5, None, pytest.approx(0.8), 0.5],
    )  # fmt: skip
    assert list(traces[0].text) == ["λ = −1, seed 0"] * 2 + [""] + ["λ = −1, seed 1"] * 2
    assert "Thin lines are single runs." in figure.caption


def test_smoothing_averages_a_window():
    curve = [(i, float(i == 3)) for i in range(7)]
    assert smooth(curve, 1) == curve
    assert [value for _, value in smooth(curve, 5)] == [0, 0.25, 0.2, 0.2, 0.2, 0.25, 0]
    row = run()
    figure = logged_curves(sweep(row), TASK_LOSS, {row.id: curve}, style=CurveStyle(window=5))
    assert figure.table.rows[1][3] == 0.25
    assert "Smoothed: each value is the mean of the 5 logged values around it." in figure.caption
    assert "no smoothing" not in figure.caption


def test_log_axis_needs_positive_values():
    log = CurveStyle(log=True)
    assert logged_curves(SWEEP, TASK_LOSS, BY_RUN, style=log).draw().layout.yaxis.type == "log"
    negative = {row.id: [(10, 0.1), (20, -0.1)] for row in SWEEP.runs}
    linear = logged_curves(SWEEP, PENALTY, negative, style=log)
    assert linear.draw().layout.yaxis.type is None
    assert "Some values are not above zero, so the scale stays linear." in linear.caption
    cases = ((TASK_LOSS, BY_RUN), (TASK_LOSS, negative), (PENALTY, BY_RUN))
    modes = [logged_curves(SWEEP, *case).draw().layout.yaxis.rangemode for case in cases]
    assert modes == ["nonnegative", None, None]


def test_caption_discloses_sample_of_values():
    assert LoggedValues({"a": [(0, 0.5)] * 20}, 20).sample("measurements") == ""
    sentence = " 1,980 of 198,000 logged values are shown: the last of every 500 steps."
    assert LoggedValues({"a": [(0, 0.5)] * 1980}, 198_000, 500).sample("logged values") == sentence
    assert logged_curves(SWEEP, TASK_LOSS, BY_RUN, sentence).caption.endswith(sentence)
    assert "curves begin" in logged_curves(sweep(run(status=RunStatus.RUNNING)), TASK_LOSS, {}).empty
    assert logged_curves(sweep(run()), TASK_LOSS, {}).empty == "No run logged a task loss."
    row = run(1.0, steps=LOGGED)
    assert sweep_curves.loss_curve(row).table.rows == [[10, 0.7], [20, 0.5]]
    assert sweep_curves.penalty_curve(row).table.rows == [[10, -0.5], [20, -0.6]]


@RUN_FIGURES
def test_curve_of_run_without_steps_is_empty(figure_of):
    assert "here" in figure_of(run(status=RunStatus.RUNNING)).empty
    assert figure_of(run(status=RunStatus.FAILED)).empty == "The run ended before it logged a step."


ENTROPY = {"lam": 1.0, "regularizer": Regularizer.ENTROPY}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lam": 1.0}, "λ (1 − IsoScore★) of the batches at λ = 1 and ζ = 0.2, as"),
        ({"lam": -1.0, "regularizer": Regularizer.COSREG}, "λ · mean cosine of the batches at λ = −1, as"),
        ({"lam": 2.0, "regularizer": Regularizer.UNBIASED}, "bias-corrected IsoScore) of the batches, averaged"),
        (ENTROPY | {"entropy_cluster_weight": 0.5},
         "−λ · H of the bars of the batches at λ = 1, over the prominent bars, and 0.5 times the mean length"),
        (ENTROPY | {"entropy_bars": "all"}, "at λ = 1, over all bars, as added"),
        ({"lam": 0.0, "fixed_regularizers": {"spectrum": 0.1}},
         "λ (1 − evenness of the singular values) of the input embedding matrix at λ = 0.1 (in addition), as"),
        ({"lam": 1.0, "fixed_regularizers": {"cosreg": 0.1}},
         "ζ = 0.2, and λ · mean cosine of the batches at λ = 0.1 (in addition), as"),
    ],
)  # fmt: skip
def test_penalty_caption_has_every_term(options, words):
    assert words in sweep_curves.penalty_curve(run(**options, steps=LOGGED)).caption


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "Cross-entropy of the batches"),
        ({"task": "span", "metric": "word_f1", "label_names": []}, "Cross-entropy of the span’s two ends"),
        ({"task": "regression", "metric": "pearson", "label_names": []}, "Squared error"),
    ],
)
def test_loss_caption_names_loss_of_task(options, words):
    assert sweep_curves.loss_curve(run(**options)).caption.startswith(words)
