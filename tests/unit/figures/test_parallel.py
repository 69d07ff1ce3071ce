import pytest

from app.db.models import RunStatus
from app.figures.labels import field_in_sentence
from app.figures.palette import lambda_color
from app.results.figures.parallel import parallel_coordinates
from isotropy.catalog import Regularizer
from tests.factories import reported
from tests.unit.figures.rows import run, sweep

RUNS = [
    run(lam, seed, performance=0.5 + 0.1 * seed, isoscore_star=0.25 + 0.01 * lam, batch_size=size)
    for size in (16, 32)
    for lam in (-1.0, 0.0, 5.0)
    for seed in (0, 1)
]
SWEEP = sweep(*RUNS, batch_size=[16, 32])


def draw(table):
    (trace,) = parallel_coordinates(table, "accuracy").draw().data
    return trace, {axis.name: axis for axis in trace.dimensions}


def axis_labeled(table, field):
    label = field_in_sentence(field)
    return next(axis for axis in draw(table)[0].dimensions if label.startswith(axis.label[:8]))


def test_axes_are_varied_settings_then_results():
    figure = parallel_coordinates(SWEEP, "accuracy")
    assert figure.table.columns == ["lam", "batch_size", "seed", "isoscore_star", "performance"]
    assert (figure.table.rows[0], len(figure.table.rows)) == ([-1.0, 16, 0, 0.24, 0.5], 12)
    trace, axes = draw(SWEEP)
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
    trace, _ = draw(SWEEP)
    lams = sorted({row.lam for row in RUNS})
    assert [lams[index] for index in trace.line.color] == [row.lam for row in RUNS]
    assert (trace.line.cmin, trace.line.cmax) == (0, len(lams) - 1)
    assert [color for _, color in trace.line.colorscale] == [lambda_color(lam) for lam in lams]
    single, _ = draw(sweep(run(1.0), run(1.0, seed=1)))
    assert [color for _, color in single.line.colorscale] == [lambda_color(1.0)] * 2
    _, axes = draw(sweep(run(0.0), run(1.0), run(1.0, regularizer=Regularizer.COSREG)))
    assert list(axes["regularizer"].ticktext) == ["none", "I-STAR", "CosReg"]
    assert "regularizer" not in draw(SWEEP)[1]


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
