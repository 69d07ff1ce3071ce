import pytest

from app.db.models import RunStatus
from app.results.figures.scatter import scatter
from app.results.figures.scatter_points import ScatterStyle
from app.results.run_table import Reading
from tests.unit.figures.rows import run, sweep


def isotropy_silhouette(runs, found):
    runs.add_readings("silhouette", found)
    return scatter(runs, "accuracy", ScatterStyle(y="silhouette"))


def of(value, reason=None):
    return Reading(value, reason)


def test_a_point_is_the_last_layer_s_silhouette_over_isoscore_star_as_means_over_seeds():
    runs = sweep(*(run(lam, seed, isoscore_star=0.2 + 0.1 * lam) for lam in (0.0, 1.0) for seed in (0, 1)))
    figure = isotropy_silhouette(runs, {one.id: of(0.4 - 0.1 * one.lam + 0.02 * one.seed) for one in runs.runs})
    assert figure.title == "Silhouette by isotropy"
    assert figure.table.columns == [
        "lambda",
        *(f"{of_one}_{what}" for of_one in ("silhouette", "isoscore_star")
          for what in ("seeds", "mean", "ci95_half_width")),
    ]  # fmt: skip
    assert figure.table.rows[1] == [1, 2, pytest.approx(0.31), pytest.approx(12.7062 * 0.01, rel=1e-4),
                                    2, pytest.approx(0.3), pytest.approx(0)]  # fmt: skip
    points = [trace for trace in figure.draw().data if trace.error_y.visible]
    assert [(trace.x[0], trace.y[0]) for trace in points] == [
        (pytest.approx(0.2), pytest.approx(0.41)),
        (pytest.approx(0.3), pytest.approx(0.31)),
    ]
    assert "Silhouette is of the last layer’s sentence vectors. Range: [−1, 1]." in figure.caption


def test_a_run_that_lacks_one_of_the_two_is_left_out():
    runs = sweep(run(0.0, 0), run(0.0, 1, isoscore_star=None), run(1.0), run(3.0))
    found = {one.id: of(None if one.lam == 1 else 0.3) for one in runs.runs[:3]}
    assert [row[:2] for row in isotropy_silhouette(runs, found).table.rows] == [[0, 1]]


def test_an_empty_figure_says_why():
    runs = sweep(run(1.0))
    undefined = {runs.runs[0].id: of(None, "All rows have one label.")}
    assert isotropy_silhouette(runs, undefined).empty == (
        "Not drawn, because Silhouette is undefined: λ = 1 seed 0. All rows have one label."
    )
    assert isotropy_silhouette(runs, {}).empty.endswith("It was not measured.")
    assert "first run has finished" in isotropy_silhouette(sweep(run(status=RunStatus.QUEUED)), {}).empty
