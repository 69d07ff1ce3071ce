import pytest

from app.db.models import RunStatus
from app.results.figures.layer_curves import late_anisotropy, while_training
from app.results.labels import SHARES
from tests.factories import reported
from tests.unit.figures.rows import run, sweep

SWEEP = sweep(*(run(lam, seed) for lam in (0.0, 1.0) for seed in (0, 1)))


def looks(*values, measure="mean_cosine"):
    """One look every ten steps, whose last layer has these values."""
    return [(10 * i, {measure: [0.9, value]}) for i, value in enumerate(values)]


def test_a_line_is_the_last_layer_s_mean_over_seeds_at_each_step():
    found = {one.id: looks(0.5, 0.4 + 0.1 * one.seed) for one in SWEEP.runs}
    figure = while_training(SWEEP, found, "mean_cosine")
    lines = [trace for trace in figure.draw().data if trace.fill is None]
    assert [(trace.name, list(trace.x), list(trace.y)) for trace in lines] == [
        ("λ = 0", [0, 10], [0.5, pytest.approx(0.45)]),
        ("λ = 1", [0, 10], [0.5, pytest.approx(0.45)]),
    ]
    assert figure.table.columns == ["lambda", "step", "seeds", "mean_cosine_mean", "ci95_half_width"]
    assert figure.table.rows[1] == [0, 10, 2, pytest.approx(0.45), pytest.approx(12.7062 * 0.05, rel=1e-4)]
    assert "(n = 2)" in figure.caption


def test_a_run_that_is_still_on_its_way_is_in_the_mean_as_far_as_it_came():
    first, second = SWEEP.runs[:2]
    figure = while_training(SWEEP, {first.id: looks(0.5, 0.4), second.id: looks(0.7)}, "mean_cosine")
    assert [row[1:4] for row in figure.table.rows] == [[0, 2, pytest.approx(0.6)], [10, 1, 0.4]]
    assert "(n = 1 to 2)" in figure.caption


def test_a_look_that_lacks_the_measure_or_its_value_leaves_no_point():
    (first, *_) = SWEEP.runs
    found = {
        first.id: [(0, {"mean_cosine": None}), (10, {"mean_cosine": [0.5, None]}), (20, {"mean_cosine": [0.5, 0.6]})]
    }
    assert [row[1:4] for row in while_training(SWEEP, found, "mean_cosine").table.rows] == [[20, 1, 0.6]]


@pytest.mark.parametrize(
    ("figure", "coming"),
    [
        (lambda sweep: while_training(sweep, {}, "mean_cosine"), "at the first measurement"),
        (lambda sweep: late_anisotropy(sweep, {}), "when the first run has ended"),
    ],
)
def test_measurements_are_promised_only_while_a_run_goes_on(figure, coming):
    assert coming in figure(sweep(run(), run(seed=1, status=RunStatus.RUNNING))).empty
    assert figure(SWEEP).empty.startswith("No run measured")


def test_nothing_is_claimed_of_what_a_script_measured():
    one = run(1.0)
    one.config = reported(one)
    caption = while_training(sweep(one), {one.id: looks(0.5)}, "mean_cosine").caption
    assert caption.startswith("The last layer, as a script logged it.")
    assert "validation" not in caption


def test_late_anisotropy_is_the_mean_of_the_last_three_tenths_and_then_over_seeds():
    def of(seed):
        return [(step, {share: [0.9, (step >= 70) * (0.1 * k + 0.01 * seed)] for k, share in enumerate(SHARES, 1)})
                for step in range(0, 101, 10)]  # fmt: skip

    figure = late_anisotropy(SWEEP, {one.id: of(one.seed) for one in SWEEP.runs})
    assert figure.table.columns[:5] == ["lambda", "raw_1", "raw_2", "raw_3", "centred_1"]
    assert figure.table.columns[7] == "raw_1_ci95_half_width"
    assert figure.table.columns[13:] == [f"{share}_{k}_seeds" for share in ("raw", "centred") for k in (1, 2, 3)]
    (row, _) = figure.table.rows
    assert row[:7] == [0, *(pytest.approx(0.1 * k + 0.005) for k in range(1, 7))]
    assert row[7:] == [*[pytest.approx(12.7062 * 0.005, rel=1e-4)] * 6, *[2] * 6]
    raw, centred = figure.draw().data[:2]
    assert (list(raw.y), list(centred.y)) == (row[1:4], row[4:7])
    assert (centred.xaxis, centred.showlegend) == ("x2", False)
    assert "the last 30% of training" in figure.caption


def test_late_anisotropy_is_of_finished_runs_alone_and_a_share_may_be_missing():
    running = run(1.0, status=RunStatus.RUNNING, performance=None)
    runs = sweep(run(0.0), running)
    found = {one.id: looks(0.4, 0.5, measure=SHARES[0]) for one in runs.runs}
    assert late_anisotropy(runs, found).table.rows == [[0, 0.5, *[None] * 5, 1, *[0] * 5]]
    assert "first run has ended" in late_anisotropy(sweep(running), found).empty


def test_late_anisotropy_asks_for_no_performance_and_ends_with_the_run():
    undefined = sweep(run(1.0, performance=None))
    (one,) = undefined.runs
    seen = looks(0.4, 0.5, measure=SHARES[0])
    assert late_anisotropy(undefined, {one.id: seen}).table.rows == [[1.0, 0.5, *[None] * 5, 1, *[0] * 5]]
    assert late_anisotropy(undefined, {one.id: [*seen, (20, {SHARES[0]: [0.9, None]})]}).table.rows == []


def test_an_interval_has_a_column_only_where_some_setting_has_several_seeds():
    one, other = run(0.0), run(1.0)
    seen = looks(0.4, 0.5, measure=SHARES[0])
    assert late_anisotropy(sweep(one, other), {one.id: seen, other.id: seen}).table.columns == [
        "lambda", "raw_1", "raw_2", "raw_3", "centred_1", "centred_2", "centred_3", "raw_1_seeds", "raw_2_seeds",
        "raw_3_seeds", "centred_1_seeds", "centred_2_seeds", "centred_3_seeds",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("measure", "options", "words"),
    [
        ("mean_cosine", {}, "The last layer, of the tokens of a few validation rows, the same at every step."),
        (
            "isoscore_star",
            {},
            "the same at every step, at ζ = 0: low for few tokens, so read the trend, not the level.",
        ),
        ("isoscore_unbiased", {}, "The last layer, of the mean vectors, one of each text, of a few validation rows"),
        (
            "mean_cosine",
            {"task": "span", "metric": "word_f1", "label_names": []},
            "tokens of a few windows of validation rows, the same",
        ),
    ],
)
def test_the_caption_says_which_points_of_what_were_looked_at(measure, options, words):
    one = run(1.0, **options)
    figure = while_training(sweep(one), {one.id: looks(0.5, measure=measure)}, measure, " 1 of 9 looks.")
    assert words in figure.caption
    assert figure.caption.endswith(" 1 of 9 looks.")
