from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.db.models import RunStatus
from app.figures.palette import lambda_color, with_opacity
from app.results.figures import sweep_curves
from app.results.figures.layer_curves import late_anisotropy, measure_during_training, run_heat_map, setting_heat_map
from app.results.figures.sweep_curves import PENALTY, TASK_LOSS, CurveStyle, logged_curves, smooth
from app.results.labels import ANISOTROPY_MEASURES, TRAINING_MEASURES, slug_of, title_of
from app.results.run_data import LoggedValues, steps_to_read
from isotropy.catalog import MEASURES, Regularizer
from tests.factories import reported
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
    band, *lines = sweep_curves.mean_traces(SWEEP, means, with_bands=True)
    reach = T95 * 0.1
    assert list(band.x) == [10, 20, 20, 10]
    assert list(band.y) == pytest.approx([0.6 - reach, 0.8 - reach, 0.8 + reach, 0.6 + reach], rel=1e-4)
    assert (band.fill, band.fillcolor, band.showlegend) == ("toself", with_opacity(lambda_color(-1), 0.16), False)
    assert [trace.legendgroup for trace in (band, *lines)] == ["λ = −1", "λ = −1", "λ = 0"]
    assert [list(trace.y) for trace in lines] == [pytest.approx([0.6, 0.8]), [0.1, 0.1]]
    pair = [[(i, 0.5) for i in range(5)], [(i, 0.7) for i in (0, 1, 3, 4)]]
    *bands, _, _ = sweep_curves.mean_traces(SWEEP, means_of(pair, [[(0, 0.1)]]), with_bands=True)
    assert [list(band.x) for band in bands] == [[0, 1, 1, 0], [3, 4, 4, 3]]


def test_bands_need_seeds_and_few_settings():
    means = means_of([[(0, 0.5)], [(0, 0.7)]], [[(0, 0.1)]])
    assert sweep_curves.should_draw_bands(means)
    assert not sweep_curves.should_draw_bands(means_of([[(0, 0.5)]], [[(0, 0.1)]]))
    assert [trace.fill for trace in sweep_curves.mean_traces(SWEEP, means, with_bands=False)] == [None, None]
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
    assert LoggedValues({"a": [(0, 0.5)] * 20}, 20).sample_note("measurements") == ""
    sentence = " 1,980 of 198,000 logged values are shown: the last of every 500 steps."
    assert LoggedValues({"a": [(0, 0.5)] * 1980}, 198_000, 500).sample_note("logged values") == sentence
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


COSINE = "mean_cosine"
TWO_SEEDS = sweep(*(run(lam, seed) for lam in (0.0, 1.0) for seed in (0, 1)))
STEPS = [
    step(0, layers={"isoscore_star": [0.3, 0.2], COSINE: [0.5, 0.6]}),
    step(10, 0.7, -0.5, {"isoscore_star": [0.31, None]}),
    step(20, 0.5, -0.6),
]


def looks(*values, measure=COSINE):
    """Return a measurement every ten steps with these values of the last layer."""
    return [(10 * i, {measure: [0.9, value]}) for i, value in enumerate(values)]


def test_line_averages_last_layer_over_seeds():
    by_run = {row.id: looks(0.5, 0.4 + 0.1 * row.seed) for row in TWO_SEEDS.runs}
    figure = measure_during_training(TWO_SEEDS, by_run, COSINE)
    assert figure.table.columns == ["lambda", "step", "seeds", "mean_cosine_mean", "ci95_half_width"]
    half_width = pytest.approx(T95 * 0.05, rel=1e-4)
    assert figure.table.rows[:2] == [[0, 0, 2, 0.5, 0.0], [0, 10, 2, pytest.approx(0.45), half_width]]
    assert "(n = 2)" in figure.caption
    lines = [trace for trace in figure.draw().data if trace.fill is None]
    assert [(line.name, list(line.x)) for line in lines] == [("λ = 0", [0, 10]), ("λ = 1", [0, 10])]
    ends = figure.draw().layout.yaxis.autorangeoptions
    assert (ends.clipmin, ends.clipmax) == (-1, 1), "a wide interval does not stretch the axis beyond the range"


def test_unfinished_runs_and_missing_values_leave_gaps():
    first, second = TWO_SEEDS.runs[:2]
    figure = measure_during_training(TWO_SEEDS, {first.id: looks(0.5, 0.4), second.id: looks(0.7)}, COSINE)
    assert [row[1:4] for row in figure.table.rows] == [[0, 2, pytest.approx(0.6)], [10, 1, 0.4]]
    assert "(n = 1 to 2)" in figure.caption
    gaps = [(0, {COSINE: None}), (10, {COSINE: [0.5, None]}), (20, {COSINE: [0.5, 0.6]})]
    table = measure_during_training(TWO_SEEDS, {first.id: gaps}, COSINE).table
    assert [row[1:4] for row in table.rows] == [[20, 1, 0.6]]


@pytest.mark.parametrize(
    ("figure_of", "coming"),
    [
        (lambda table: measure_during_training(table, {}, COSINE), "at the first measurement"),
        (lambda table: late_anisotropy(table, {}), "when the first run has ended"),
    ],
)
def test_empty_figure_announces_measurements_of_running_runs(figure_of, coming):
    assert coming in figure_of(sweep(run(), run(seed=1, status=RunStatus.RUNNING))).empty
    assert figure_of(TWO_SEEDS).empty.startswith("No run measured")


def test_caption_claims_nothing_about_logged_measures():
    row = run(1.0)
    row.config = reported(row)
    caption = measure_during_training(sweep(row), {row.id: looks(0.5)}, COSINE).caption
    assert caption.startswith("The last layer, as a script logged it.")
    assert "validation" not in caption


@pytest.mark.parametrize(
    ("measure", "options", "words"),
    [
        (COSINE, {}, "The last layer, of the tokens of a few validation rows, the same at every step."),
        ("isoscore_star", {}, "the same at every step, at ζ = 0: low for few tokens, so read the trend, not the level"),
        ("isoscore_unbiased", {}, "The last layer, of the mean vectors, one of each text, of a few validation rows"),
        (COSINE, {"task": "span", "metric": "word_f1", "label_names": []}, "tokens of a few windows of validation"),
    ],
)
def test_caption_names_the_measured_points(measure, options, words):
    row = run(1.0, **options)
    figure = measure_during_training(sweep(row), {row.id: looks(0.5, measure=measure)}, measure, " 1 of 9 looks.")
    assert words in figure.caption
    assert figure.caption.endswith(" 1 of 9 looks.")


def test_late_anisotropy_averages_last_30_percent_over_seeds():
    def late_looks(seed):
        return [
            (i, {share: [0.9, (i >= 70) * (0.1 * k + 0.01 * seed)] for k, share in enumerate(ANISOTROPY_MEASURES, 1)})
            for i in range(0, 101, 10)
        ]

    figure = late_anisotropy(TWO_SEEDS, {row.id: late_looks(row.seed) for row in TWO_SEEDS.runs})
    shares = [f"{side}_{k}" for side in ("raw", "centred") for k in (1, 2, 3)]
    suffixes = ("", "_ci95_half_width", "_seeds")
    assert figure.table.columns == ["lambda", *(share + suffix for suffix in suffixes for share in shares)]
    (row, _) = figure.table.rows
    assert row[:7] == [0, *(pytest.approx(0.1 * k + 0.005) for k in range(1, 7))]
    assert row[7:] == [*[pytest.approx(T95 * 0.005, rel=1e-4)] * 6, *[2] * 6]
    raw, centered = figure.draw().data[:2]
    assert (list(raw.y), list(centered.y), centered.xaxis, centered.showlegend) == (row[1:4], row[4:7], "x2", False)
    assert "the last 30% of training" in figure.caption


def test_late_anisotropy_needs_finished_run_but_no_performance():
    running, undefined = run(1.0, status=RunStatus.RUNNING, performance=None), run(0.0, performance=None)
    table = sweep(undefined, running)
    values = looks(0.4, 0.5, measure=ANISOTROPY_MEASURES[0])
    of_both_runs = late_anisotropy(table, dict.fromkeys((undefined.id, running.id), values)).table
    assert of_both_runs.rows == [[0, 0.5, *[None] * 5, 1, *[0] * 5]]
    assert "first run has ended" in late_anisotropy(sweep(running), {running.id: values}).empty
    without_last = [*values, (20, {ANISOTROPY_MEASURES[0]: [0.9, None]})]
    assert late_anisotropy(table, {undefined.id: without_last}).table.rows == []
    rows = run(0.0), run(1.0)
    by_run = {row.id: looks(0.4, measure=ANISOTROPY_MEASURES[0]) for row in rows}
    columns = late_anisotropy(sweep(*rows), by_run).table.columns
    assert columns[6:8] == ["centred_3", "raw_1_seeds"]


def test_run_heat_map_leaves_undefined_cells_empty():
    figure = run_heat_map(run(1.0, steps=STEPS), "isoscore_star")
    assert figure.table.columns == ["step", "layer_1", "layer_2"]
    assert figure.table.rows == [[0, 0.3, 0.2], [10, 0.31, None]]
    (cells,) = figure.draw().data
    assert ([list(row) for row in cells.z], list(cells.y)) == ([[0.3, 0.31], [0.2, None]], [1, 2])
    assert "Light is 0.200, dark 0.310" in figure.caption
    assert "Empty: the measure was undefined" in figure.caption
    undefined = run_heat_map(run(1.0, steps=[step(0, layers={"isoscore_star": [None, None]})]), "isoscore_star")
    assert "Range: [0, 1]." in undefined.caption
    figure = run_heat_map(run(1.0, steps=STEPS), COSINE)
    assert figure.table.rows == [[0, 0.5, 0.6]]
    assert ("Empty: the measure was undefined" in figure.caption, "read the trend" in figure.caption) == (False, False)
    assert figure.title == "Mean cosine similarity by layer and step"
    assert "A column appears" in run_heat_map(run(1.0, status=RunStatus.RUNNING), COSINE).empty
    assert "was not taken during training" in run_heat_map(run(1.0), COSINE).empty


def test_training_measures_are_in_catalog():
    assert [slug_of(measure) for measure in TRAINING_MEASURES if slug_of(measure) not in MEASURES] == []
    assert title_of(ANISOTROPY_MEASURES[-1]) == "k-th anisotropy, centered, k = 3"
    assert title_of("of another version") == "of another version"


def test_setting_heat_map_averages_seeds_with_value():
    table = sweep(run(0.0), run(1.0, 0), run(1.0, 1))
    _, first, second = table.runs
    by_run = {
        first.id: [(0, {COSINE: [0.25, None]}), (10, {COSINE: [0.5, None]})],
        second.id: [(0, {COSINE: [0.75, 0.5]}), (20, {COSINE: None})],
    }
    baseline, setting = table.settings
    figure = setting_heat_map(table, setting, by_run, COSINE, " 3 of 9 looks.")
    assert figure.table.rows == [[0, 0.5, 0.5], [10, 0.5, None]]
    assert figure.title == "Mean cosine similarity by layer and step, λ = 1"
    assert figure.caption.endswith(" Means over seeds (n = 1 to 2). 3 of 9 looks.")
    single = setting_heat_map(table, setting, {first.id: by_run[first.id]}, COSINE, "")
    assert single.caption.endswith(" Of one seed (n = 1).")
    assert "not taken during training" in setting_heat_map(table, baseline, by_run, COSINE, "").empty


def test_heat_map_counts_repeated_seed_once_and_keeps_all_layers():
    table = sweep(run(0.0, 0, model="deep"), run(0.0, 0, model="flat"), run(0.0, 1))
    layers = ([0.25, 0.5, 0.75], [0.75, 1.0], [1.0, None])
    by_run = {row.id: [(0, {COSINE: values})] for row, values in zip(table.runs, layers, strict=True)}
    by_run[table.runs[0].id].append((10, {COSINE: [0.0, 0.0, 0.0]}))
    by_run[table.runs[1].id].append((20, {COSINE: [0.5, 0.5]}))
    figure = setting_heat_map(table, table.settings[0], by_run, COSINE, "")
    assert figure.table.rows == [[0, 0.75, 0.75, 0.75], [10, 0.0, 0.0, 0.0], [20, 0.5, 0.5, None]]
    assert [list(row) for row in figure.draw().data[0].z][2] == [0.75, 0.0, None]
    assert figure.caption.endswith(" Means over seeds (n = 1 to 2).")


RUNS = st.lists(st.sets(st.integers(0, 60), min_size=1), min_size=1, max_size=6)


@given(RUNS, st.integers(1, 20))
def test_last_step_of_each_stride_is_read_for_every_run(runs, stride):
    counts = Counter(step for run in runs for step in run)
    steps = steps_to_read(counts, map(max, runs), stride)
    due = {max(step for step in run if -(-step // stride) == -(-at // stride)) for run in runs for at in run}
    assert due <= set(steps) <= set(counts)
    assert len(steps) == len(set(steps))


@given(st.sets(st.integers(0, 200), min_size=1), st.integers(1, 9), st.integers(1, 40))
def test_runs_with_equal_steps_read_no_extra_steps(run, runs, stride):
    due = {max(step for step in run if -(-step // stride) == -(-at // stride)) for at in run}
    assert set(steps_to_read(dict.fromkeys(run, runs), [max(run)] * runs, stride)) == due
