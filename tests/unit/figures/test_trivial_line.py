import pytest

from app.db.models import RunStatus
from app.results.figures.baseline import method_bars
from app.results.figures.scatter_points import ScatterStyle
from app.results.figures.trivial import TrivialPredictor
from tests.unit.figures.rows import isotropy_performance, lambda_performance, run, sweep

PREDICTOR = "always “0”, the most frequent class of the training rows"


def judged(lam, seed=0, *, trivial=0.5, constant=None, **columns):
    row = run(lam, seed, **columns)
    metrics = {"accuracy": trivial, "f1": None, "matthews": 0.0}
    row.learning = {"trivial": {"predictor": PREDICTOR, "metrics": metrics, "reasons": {"f1": "why"}}}
    if constant is not None:
        row.learning.constant_prediction = constant
    return row


NOTHING = judged(5.0, performance=0.5, isoscore_star=0.9)
SWEEP = [
    *(judged(0.0, seed, performance=0.55 + 0.01 * seed) for seed in (0, 1)), judged(-1.0, performance=0.6), NOTHING,
]  # fmt: skip
FIGURES = [isotropy_performance, lambda_performance, method_bars]


def lines(plot):
    return [shape for shape in plot.layout.shapes if shape.line.dash == "dash"]


def crosses(plot):
    return [trace for trace in plot.data if trace.type == "scatter" and trace.marker.symbol == "x-thin"]


def notes(plot):
    return [one.text for one in plot.layout.annotations if "trivial" in one.text]


@pytest.mark.parametrize("figure_of", FIGURES)
def test_the_trivial_predictor_is_a_labelled_line_with_its_number_in_the_table(figure_of):
    figure = figure_of(sweep(*SWEEP), "accuracy")
    plot = figure.draw()
    (line,) = lines(plot)
    at, across = ("x", "y") if figure_of is method_bars else ("y", "x")
    assert (line[f"{at}0"], line[f"{at}1"], line[f"{across}ref"]) == (0.5, 0.5, "paper")
    assert notes(plot) == ["trivial predictor 0.500"]
    assert f"The trivial predictor (dashed line or arrow) scores 0.500: {PREDICTOR}." in figure.caption
    place = figure.table.columns.index("trivial_performance")
    assert {row[place] for row in figure.table.rows} == {0.5}


@pytest.mark.parametrize("figure_of", FIGURES)
def test_runs_that_learned_nothing_are_crossed_out_named_and_counted(figure_of):
    figure = figure_of(sweep(*SWEEP), "accuracy")
    (cross,) = crosses(figure.draw())
    assert len(cross.x) == 1
    assert (
        "1 run learned nothing (a cross marks its setting): λ = 5 seed 0. Performance 0.500 is not above"
        in figure.caption
    )
    place = figure.table.columns.index("runs_that_learned_nothing")
    counts = {row[figure.table.columns.index("lambda")]: row[place] for row in figure.table.rows}
    assert counts[5.0] == 1
    assert counts[0.0] == 0
    assert any("learned nothing: 1 seed" in str(trace.hovertext) for trace in figure.draw().data)


def test_each_run_has_its_reason_where_the_table_is_of_runs():
    table = isotropy_performance(sweep(*SWEEP), "accuracy", ScatterStyle(seeds=True)).table
    reasons = [row[table.columns.index("learned_nothing")] for row in table.rows]
    assert [reason is not None for reason in reasons] == [False, False, False, True]


def test_constant_runs_are_marked_wherever_they_lie():
    figure = lambda_performance(sweep(*SWEEP[:3], judged(5.0, performance=0.7, constant="“1”")), "accuracy")
    assert "Every validation row was predicted as “1”." in figure.caption
    assert len(crosses(figure.draw())) == 1


def test_a_line_far_below_leaves_the_points_their_room_and_is_told_at_the_edge():
    figure = lambda_performance(
        sweep(*(judged(lam, performance=0.9 + lam / 100) for lam in (0.0, 1.0, 2.0))), "accuracy"
    )
    plot = figure.draw()
    assert lines(plot) == []
    assert notes(plot) == ["↓ trivial predictor 0.500"]
    assert plot.layout.yaxis.range[0] > 0.85


@pytest.mark.parametrize("figure_of", [isotropy_performance, lambda_performance])
@pytest.mark.parametrize(("collapsed", "side"), [(5.0, "left"), (-5.0, "right")])
def test_the_words_on_the_line_stand_away_from_a_run_that_lies_on_it(figure_of, collapsed, side):
    nothing = judged(collapsed, performance=0.5, isoscore_star=0.5 + collapsed / 20)
    others = [judged(0.0, performance=0.8, isoscore_star=0.5), judged(-collapsed, performance=0.9, isoscore_star=0.5)]
    (note,) = [one for one in figure_of(sweep(*others, nothing), "accuracy").draw().layout.annotations
               if "trivial" in one.text]  # fmt: skip
    assert (note.xanchor, note.x) == (side, float(side == "right"))


def test_of_a_correlation_the_line_is_at_zero():
    told = TrivialPredictor.from_runs(
        sweep(*SWEEP), [judged(0.0, metric="matthews"), judged(0.0, 1, metric="matthews")]
    )
    assert told.score == 0


@pytest.mark.parametrize("figure_of", FIGURES)
def test_runs_of_earlier_versions_are_drawn_as_ever(figure_of):
    figure = figure_of(sweep(run(0.0), run(1.0)), "accuracy")
    plot = figure.draw()
    assert (lines(plot), notes(plot), crosses(plot)) == ([], [], [])
    assert "trivial" not in figure.caption
    assert not {"trivial_performance", "runs_that_learned_nothing"} & set(figure.table.columns)


def test_a_run_without_a_performance_may_have_learned_nothing_too():
    constant = judged(
        5.0, performance=None, constant="2.35", performance_reason="The model gives every row one number."
    )
    figure = lambda_performance(sweep(*SWEEP[:3], constant), "accuracy")
    assert "Every validation row was predicted as 2.35." in figure.caption
    assert crosses(figure.draw()) == []


def test_unfinished_runs_say_nothing():
    waiting = judged(5.0, performance=0.5, status=RunStatus.RUNNING)
    assert TrivialPredictor.from_runs(sweep(*SWEEP[:3], waiting), [waiting]).failed_runs == {}
