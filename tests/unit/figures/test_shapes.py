from dataclasses import replace

import pytest

from app.embeddings.figures.overlay import Subject
from app.embeddings.figures.report import draw_figures
from tests.unit.figures.clouds import measurement, subject_with

EDGES = {"edges": [-1.0, 0.0, 0.5, 1.0]}


def figure(slug, measure, detail, **fields):
    return next(result for result in draw_figures([subject_with(measure, detail, **fields)]) if result.slug == slug)


def cosines(counts, rows, mean, of_rows):
    histogram = measurement("cosine_histogram", 0.2, rows, {**EDGES, "counts": counts, "rows": rows})
    exact = measurement("mean_cosine", mean, of_rows)
    (result,) = draw_figures([Subject("x", {"cosine_histogram": histogram, "mean_cosine": exact})])
    return result


def test_zero_eigenvalues_are_not_drawn_and_shares_end_at_one():
    (line,) = figure("spectrum", "spectrum", {"eigenvalues": [4.0, 1.0, 0.0]}).draw().data
    assert list(line.y) == [4.0, 1.0, None]
    drawn = figure("cumulative", "spectrum", {"eigenvalues": [3.0, 2.0, 1.0]})
    assert [row[1] for row in drawn.table.rows] == pytest.approx([0.5, 5 / 6, 1.0])
    assert "Half of the variance lies in 1 component of 3" in drawn.caption


def test_anisotropy_without_centered_values_states_reason():
    raw = measurement("anisotropy_raw", 1.0, 10, {"values": [1.0, 0.0]})
    centered = measurement("anisotropy_centred", None, 10, reason="All points are equal.")
    (result,) = draw_figures([Subject("x", {"anisotropy_raw": raw, "anisotropy_centred": centered})])
    assert "Centered, it is undefined: All points are equal." in result.caption
    assert [row[2] for row in result.table.rows] == [None, None]
    assert [bar.name for bar in result.draw().data] == ["raw"]


def test_caption_discloses_sample_of_cosines():
    assert "pairs among 2,000 of 8,000 rows" in cosines([0, 3, 1], 2000, 0.25, 8000).caption
    assert "all pairs of 2,000 rows" in cosines([0, 3, 1], 2000, 0.25, 2000).caption
    assert "Fewer than two rows" in cosines([0, 0, 0], 1, None, 1).empty


def test_canceling_contributions_have_no_shares():
    alike = figure("rogue", "rogue_dimensions", {"contributions": [0.1, 0.3]})
    assert [row[2] for row in alike.table.rows] == pytest.approx([0.25, 0.75])
    assert "Largest: 1 (0.30, 75% of the mean)." in alike.caption
    cancelling = figure("rogue", "rogue_dimensions", {"contributions": [0.3, -0.29]})
    assert [row[2] for row in cancelling.table.rows] == [None, None]
    assert "Largest: 0 (0.30)." in cancelling.caption
    below = figure("rogue", "rogue_dimensions", {"contributions": [-0.1, -0.2]})
    assert "none: no dimension adds to it" in below.caption
    subject = subject_with("rogue_dimensions", {"contributions": [0.0, 0.3, 0.2]})
    (marked,) = (result for result in draw_figures([replace(subject, blamed=[1])]) if result.slug == "rogue")
    assert list(marked.draw().data[-1].text) == ["1"]


@pytest.mark.parametrize(("points", "kind"), [(1000, "scatter"), (1001, "scattergl")])
def test_few_points_are_drawn_without_webgl(points, kind):
    plane = {"n": points, "x": [0.0] * points, "y": [1.0] * points, "shares": [0.5, 0.25], "labels": None}
    cloud = Subject("cloud", {}, {"projection": plane | {"density": None}})
    drawn = next(result for result in draw_figures([cloud]) if result.slug == "projection").draw()
    assert [trace.type for trace in drawn.data] == [kind]
