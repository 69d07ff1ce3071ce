import pytest

from app.db.models import RunStatus
from app.figures.labels import inside
from app.figures.palette import of_lambda
from app.results.figures.parallel import parallel
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


def drawn(of):
    (trace,) = parallel(of, "accuracy").draw().data
    return trace, {axis.name: axis for axis in trace.dimensions}


def test_an_axis_is_what_varies_and_then_what_came_out():
    trace, axes = drawn(SWEEP)
    assert [axis.label for axis in trace.dimensions] == ["λ", "batch size", "seed", "IsoScore★", "Accuracy"]
    assert list(axes) == ["lam", "batch_size", "seed", "isoscore_star", "performance"]
    assert list(axes["performance"].values) == [0.5, 0.6] * 6
    figure = parallel(SWEEP, "accuracy")
    assert (figure.table.columns, figure.table.rows[0]) == (list(axes), [-1.0, 16, 0, 0.24, 0.5])
    assert len(figure.table.rows) == 12


def test_the_values_of_a_setting_stand_at_equal_steps_with_their_names():
    trace, axes = drawn(SWEEP)
    assert (list(axes["lam"].ticktext), list(axes["lam"].values)[:6]) == (["−1", "0", "5"], [0, 0, 1, 1, 2, 2])
    assert trace.meta["steps"] == [[-1.0, 0.0, 5.0], [16, 32], [0, 1], [], []]
    assert axes["performance"].tickvals is None


def test_what_a_search_chose_keeps_its_distances():
    _, axes = drawn(sweep(*(run(lam, study={"over": True}) for lam in (0.0, 0.5, 0.625, 3.0))))
    assert (axes["lam"].tickvals, list(axes["lam"].values)) == (None, [0.0, 0.5, 0.625, 3.0])


def test_a_setting_of_very_many_values_and_a_measurement_have_a_scale():
    _, axes = drawn(sweep(*(run(float(lam)) for lam in range(21))))
    assert (axes["lam"].tickvals, list(axes["lam"].values)) == (None, list(range(21)))


def test_a_line_has_the_colour_of_its_lambda():
    trace, _ = drawn(SWEEP)
    present = sorted({one.lam for one in RUNS})
    assert [present[place] for place in trace.line.color] == [one.lam for one in RUNS]
    assert (trace.line.cmin, trace.line.cmax) == (0, len(present) - 1)
    assert [colour for _, colour in trace.line.colorscale] == [of_lambda(lam) for lam in present]


def test_runs_of_one_lambda_have_a_scale_of_its_colour():
    trace, _ = drawn(sweep(run(1.0), run(1.0, seed=1)))
    assert [colour for _, colour in trace.line.colorscale] == [of_lambda(1.0)] * 2


def test_regularizers_are_an_axis_of_names_where_there_are_several():
    _, axes = drawn(sweep(run(0.0), run(1.0), run(1.0, regularizer=Regularizer.COSREG)))
    assert list(axes["regularizer"].ticktext) == ["none", "I-STAR", "CosReg"]
    assert "regularizer" not in drawn(SWEEP)[1]


@pytest.mark.parametrize("values", [[{}, {"cosreg": 1.0}], [None, 3]])
def test_what_no_search_can_say_has_an_axis_without_a_name_for_it(values):
    field = "patience" if None in values else "fixed_regularizers"
    of = sweep(*(run(1.0, seed=seed, **{field: value}) for seed, value in enumerate(values)), **{field: values})
    axis = next(axis for axis in drawn(of)[0].dimensions if inside(field).startswith(axis.label[:8]))
    assert axis.name == ""


@pytest.mark.parametrize("field", ["hidden", "status", "data"])
def test_a_setting_of_a_script_s_own_has_an_axis_that_writes_no_search(field):
    told = [run(1.0, seed) for seed in (0, 1)]
    for one, value in zip(told, (128, 256), strict=True):
        one.config = reported(one, **{field: value})
    axis = next(
        axis for axis in drawn(sweep(*told, **{field: [128, 256]}))[0].dimensions if axis.label == inside(field)
    )
    assert (axis.name, list(axis.ticktext)) == ("", ["128", "256"])


def test_what_a_script_did_not_say_is_unknown_and_what_means_nothing_has_no_value():
    told = [run(0.0), run(1.0, zeta=0.2, batch_size=16), run(1.0, 1, zeta=0.5, batch_size=8)]
    told[0].config = reported(told[0])
    trace, axes = drawn(sweep(*told, batch_size=["unknown", 16, 8]))
    table = parallel(sweep(*told, batch_size=["unknown", 16, 8]), "accuracy").table
    assert [row[:3] for row in table.rows] == [[0.0, None, "unknown"], [1.0, 0.2, 16], [1.0, 0.5, 8]]
    assert trace.meta["steps"][1:3] == [[None, 0.2, 0.5], [8, 16, "unknown"]]
    assert list(axes["zeta"].ticktext) == ["–", "0.2", "0.5"]
    assert "zeta" not in drawn(sweep(run(0.0, zeta=0.5), run(1.0, zeta=0.2)))[1]


def test_runs_without_both_values_are_counted_and_not_drawn():
    waiting = run(1.0, status=RunStatus.QUEUED, performance=None)
    figure = parallel(sweep(run(0.0), run(1.0, performance=None), waiting), "accuracy")
    assert figure.caption.startswith(
        "1 finished run, one line per run, colored by λ. Not drawn, because a value is undefined: 1 run."
    )
    assert "first run has finished" in parallel(sweep(waiting), "accuracy").empty


def test_the_caption_tells_how_to_filter_with_a_keyboard():
    assert "accepts it from the keyboard" in parallel(SWEEP, "accuracy").caption
