import pytest

from app.db.models import RunStatus
from app.figures.palette import METHODS, lambda_color
from app.results.figures.baseline import method_bars
from isotropy.catalog import Regularizer
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
