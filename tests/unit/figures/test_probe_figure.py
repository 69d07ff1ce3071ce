import pytest

from app.db.models import RunStatus
from app.results.figures.layer_curves import run_heat_map, setting_heat_map
from app.results.labels import SHARES, WATCHED, slug_of, title_of
from isotropy.catalog import MEASURES
from tests.unit.figures.rows import run, step, sweep

LOOKS = [
    step(0, layers={"isoscore_star": [0.3, 0.2], "mean_cosine": [0.5, 0.6]}),
    step(10, 0.7, -0.5, {"isoscore_star": [0.31, None]}),
    step(20, 0.5, -0.6),
]


def test_a_row_is_a_layer_and_a_column_a_look_with_a_gap_where_it_is_undefined():
    figure = run_heat_map(run(1.0, steps=LOOKS), "isoscore_star")
    (cells,) = figure.draw().data
    assert ([list(row) for row in cells.z], list(cells.x), list(cells.y)) == (
        [[0.3, 0.31], [0.2, None]],
        [0, 10],
        [1, 2],
    )
    assert figure.table.columns == ["step", "layer_1", "layer_2"]
    assert figure.table.rows == [[0, 0.3, 0.2], [10, 0.31, None]]
    assert "Light is 0.200, dark 0.310" in figure.caption
    assert "Empty: the measure was undefined" in figure.caption


def test_a_step_that_lacks_the_measure_is_no_look_at_it():
    figure = run_heat_map(run(1.0, steps=LOOKS), "mean_cosine")
    assert figure.table.rows == [[0, 0.5, 0.6]]
    assert ("Empty: the measure was undefined" in figure.caption, "read the trend" in figure.caption) == (False, False)
    assert figure.title == "Mean cosine similarity by layer and step"


@pytest.mark.parametrize(
    ("status", "words"),
    [(RunStatus.RUNNING, "A column appears"), (RunStatus.FINISHED, "was not taken during training")],
)
def test_without_a_look_it_says_whether_one_will_come(status, words):
    assert words in run_heat_map(run(1.0, status=status), "isoscore_star").empty


def test_a_look_at_which_nothing_is_defined_still_has_its_range():
    figure = run_heat_map(run(1.0, steps=[step(0, layers={"isoscore_star": [None, None]})]), "isoscore_star")
    assert "Range: [0, 1]." in figure.caption


def test_every_watched_measure_is_one_of_the_catalogue():
    assert [slug_of(measure) for measure in WATCHED if slug_of(measure) not in MEASURES] == []
    assert title_of(SHARES[-1]) == "k-th anisotropy, centered, k = 3"
    assert title_of("of another version") == "of another version"


def test_of_a_setting_each_cell_is_the_mean_over_the_seeds_that_have_a_value():
    of = sweep(run(0.0), run(1.0, 0), run(1.0, 1))
    _, first, second = of.runs
    seen = {
        first.id: [(0, {"mean_cosine": [0.25, None]}), (10, {"mean_cosine": [0.5, None]})],
        second.id: [(0, {"mean_cosine": [0.75, 0.5]}), (20, {"mean_cosine": None})],
    }
    figure = setting_heat_map(of, of.settings[1], seen, "mean_cosine", " 3 of 9 looks.")
    assert figure.table.rows == [[0, 0.5, 0.5], [10, 0.5, None]]
    assert figure.title == "Mean cosine similarity by layer and step, λ = 1"
    assert figure.caption.endswith(" Means over seeds (n = 1 to 2). 3 of 9 looks.")
    alone = setting_heat_map(of, of.settings[1], {first.id: seen[first.id]}, "mean_cosine", "")
    assert alone.caption.endswith(" Of one seed (n = 1).")
    assert "not taken during training" in setting_heat_map(of, of.settings[0], seen, "mean_cosine", "").empty


def test_a_seed_that_was_run_twice_counts_once_in_a_cell_and_the_deeper_model_keeps_its_layers():
    of = sweep(run(0.0, 0, model="deep"), run(0.0, 0, model="flat"), run(0.0, 1))
    looks = ([0.25, 0.5, 0.75], [0.75, 1.0], [1.0, None])
    seen = {one.id: [(0, {"mean_cosine": list(values)})] for one, values in zip(of.runs, looks, strict=True)}
    seen[of.runs[0].id].append((10, {"mean_cosine": [0.0, 0.0, 0.0]}))
    seen[of.runs[1].id].append((20, {"mean_cosine": [0.5, 0.5]}))
    figure = setting_heat_map(of, of.settings[0], seen, "mean_cosine", "")
    assert figure.table.rows == [[0, 0.75, 0.75, 0.75], [10, 0.0, 0.0, 0.0], [20, 0.5, 0.5, None]]
    assert [list(row) for row in figure.draw().data[0].z][2] == [0.75, 0.0, None]
    assert figure.caption.endswith(" Means over seeds (n = 1 to 2).")
