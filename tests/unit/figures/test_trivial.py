import pytest

from app.db.models import RunStatus
from app.results.figures.baseline import method_bars
from app.results.figures.scatter import scatter
from app.results.figures.scatter_points import ScatterStyle
from app.results.figures.trivial import TrivialPredictor
from tests.unit.figures.rows import run, sweep

PREDICTOR = "always “0”, the most frequent class of the training rows"


def judged(lam, seed=0, *, trivial=0.5, constant=None, **columns):
    row = run(lam, seed, **columns)
    metrics = {"accuracy": trivial, "f1": None, "matthews": 0.0}
    row.learning = {"trivial": {"predictor": PREDICTOR, "metrics": metrics, "reasons": {"f1": "why"}}}
    if constant is not None:
        row.learning.constant_prediction = constant
    return row


LEARNED = [*(judged(0.0, seed, performance=0.55 + 0.01 * seed) for seed in (0, 1)), judged(-1.0, performance=0.6)]
SWEEP = sweep(*LEARNED, judged(5.0, performance=0.5, isoscore_star=0.9))


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
    figure = figure_of(SWEEP, "accuracy")
    plot = figure.draw()
    (line,), (cross,) = lines(plot), crosses(plot)
    axis, other_axis = ("x", "y") if figure_of is method_bars else ("y", "x")
    assert (line[f"{axis}0"], line[f"{axis}1"], line[f"{other_axis}ref"]) == (0.5, 0.5, "paper")
    assert names(plot) == ["trivial predictor 0.500"]
    assert not any("trivial" in note.text for note in plot.layout.annotations)
    assert f"The trivial predictor (dashed line or arrow) scores 0.500: {PREDICTOR}." in figure.caption
    assert len(cross.x) == 1
    assert "Crosses: 1 run learned nothing." in figure.caption
    rows = {
        row["lambda"]: row for row in (dict(zip(figure.table.columns, row, strict=True)) for row in figure.table.rows)
    }
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
    table = by_isotropy(SWEEP, seeds=True).table
    reasons = [row[table.columns.index("learned_nothing")] for row in table.rows]
    assert [reason is not None for reason in reasons] == [False, False, False, True]
    plot = by_lambda(sweep(*(judged(lam, performance=0.9 + lam / 100) for lam in (0.0, 1.0, 2.0)))).draw()
    assert names(plot) == ["↓ trivial predictor 0.500"]
    assert plot.layout.yaxis.range[0] > 0.85
    matthews = [judged(0.0, metric="matthews"), judged(0.0, 1, metric="matthews")]
    assert TrivialPredictor.from_runs(SWEEP, matthews).score == 0
    waiting = judged(5.0, performance=0.5, status=RunStatus.RUNNING)
    assert TrivialPredictor.from_runs(sweep(*LEARNED, waiting), [waiting]).runs_that_learned_nothing == {}


@pytest.mark.parametrize(("performance", "constant", "n_crosses"), [(0.7, "“1”", 1), (None, "2.35", 0)])
def test_constant_predictions_are_marked_at_any_performance(performance, constant, n_crosses):
    figure = by_lambda(sweep(*LEARNED, judged(5.0, performance=performance, constant=constant)))
    assert "Crosses: 1 run learned nothing." in figure.caption
    assert len(crosses(figure.draw())) == n_crosses


def test_caption_counts_crosses_without_collapsed_settings():
    table = sweep(*LEARNED, judged(5.0, performance=0.5), judged(1.0, performance=0.5))
    figure = scatter(table, "accuracy", collapsed={setting for setting in table.settings if setting.lam == 5.0})
    assert "Crosses: 1 more run learned nothing." in figure.caption
