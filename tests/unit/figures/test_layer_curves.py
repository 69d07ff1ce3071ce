import pytest

from app.db.models import RunStatus
from app.results.figures.layer_curves import late_anisotropy, measure_during_training, run_heat_map, setting_heat_map
from app.results.labels import ANISOTROPY_MEASURES, TRAINING_MEASURES, slug_of, title_of
from isotropy.catalog import MEASURES
from tests.factories import reported
from tests.unit.figures.rows import T95, run, step, sweep

COSINE = "mean_cosine"
SWEEP = sweep(*(run(lam, seed) for lam in (0.0, 1.0) for seed in (0, 1)))
STEPS = [
    step(0, layers={"isoscore_star": [0.3, 0.2], COSINE: [0.5, 0.6]}),
    step(10, 0.7, -0.5, {"isoscore_star": [0.31, None]}),
    step(20, 0.5, -0.6),
]


def looks(*values, measure=COSINE):
    """Return a measurement every ten steps with these values of the last layer."""
    return [(10 * i, {measure: [0.9, value]}) for i, value in enumerate(values)]


def test_line_averages_last_layer_over_seeds():
    figure = measure_during_training(SWEEP, {row.id: looks(0.5, 0.4 + 0.1 * row.seed) for row in SWEEP.runs}, COSINE)
    assert figure.table.columns == ["lambda", "step", "seeds", "mean_cosine_mean", "ci95_half_width"]
    half_width = pytest.approx(T95 * 0.05, rel=1e-4)
    assert figure.table.rows[:2] == [[0, 0, 2, 0.5, 0.0], [0, 10, 2, pytest.approx(0.45), half_width]]
    assert "(n = 2)" in figure.caption
    lines = [trace for trace in figure.draw().data if trace.fill is None]
    assert [(line.name, list(line.x)) for line in lines] == [("λ = 0", [0, 10]), ("λ = 1", [0, 10])]
    ends = figure.draw().layout.yaxis.autorangeoptions
    assert (ends.clipmin, ends.clipmax) == (-1, 1), "a wide interval does not stretch the axis beyond the range"


def test_unfinished_runs_and_missing_values_leave_gaps():
    first, second = SWEEP.runs[:2]
    figure = measure_during_training(SWEEP, {first.id: looks(0.5, 0.4), second.id: looks(0.7)}, COSINE)
    assert [row[1:4] for row in figure.table.rows] == [[0, 2, pytest.approx(0.6)], [10, 1, 0.4]]
    assert "(n = 1 to 2)" in figure.caption
    gaps = [(0, {COSINE: None}), (10, {COSINE: [0.5, None]}), (20, {COSINE: [0.5, 0.6]})]
    assert [row[1:4] for row in measure_during_training(SWEEP, {first.id: gaps}, COSINE).table.rows] == [[20, 1, 0.6]]


@pytest.mark.parametrize(
    ("figure_of", "coming"),
    [
        (lambda table: measure_during_training(table, {}, COSINE), "at the first measurement"),
        (lambda table: late_anisotropy(table, {}), "when the first run has ended"),
    ],
)
def test_empty_figure_announces_measurements_of_running_runs(figure_of, coming):
    assert coming in figure_of(sweep(run(), run(seed=1, status=RunStatus.RUNNING))).empty
    assert figure_of(SWEEP).empty.startswith("No run measured")


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

    figure = late_anisotropy(SWEEP, {row.id: late_looks(row.seed) for row in SWEEP.runs})
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
    assert late_anisotropy(table, dict.fromkeys((undefined.id, running.id), values)).table.rows == [
        [0, 0.5, *[None] * 5, 1, *[0] * 5]
    ]
    assert "first run has ended" in late_anisotropy(sweep(running), {running.id: values}).empty
    assert (
        late_anisotropy(table, {undefined.id: [*values, (20, {ANISOTROPY_MEASURES[0]: [0.9, None]})]}).table.rows == []
    )
    rows = run(0.0), run(1.0)
    columns = late_anisotropy(
        sweep(*rows), {row.id: looks(0.4, measure=ANISOTROPY_MEASURES[0]) for row in rows}
    ).table.columns
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
