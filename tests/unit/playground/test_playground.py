import math
from itertools import product

import numpy as np
import pytest

from app.figures.palette import MAIN, MARKED, QUIET
from app.playground import clouds
from app.playground.clouds import MAX_POINTS, SHAPES, SHIFTS, SPREADS, Position, generate_cloud, get_measures
from app.playground.figures import RANGES, cloud_figure, shift_figure
from isoscope.core.errors import InvalidError
from isotropy.catalog import MEASURES as CATALOG
from workers.playground import measure_scores

ALL = [Position(*values) for values in product(SHAPES, SPREADS, SHIFTS, clouds.SIZES)]


def test_every_position_has_finite_measures():
    assert len(ALL) == 6 * 6 * 8 * 5
    for position in ALL:
        numbers = get_measures(position)
        assert tuple(numbers) == clouds.MEASURES
        assert all(math.isfinite(value) for value in numbers.values()), position
    assert CATALOG.keys() >= set(clouds.MEASURES)
    assert clouds.FILE.stat().st_size < 500_000


@pytest.mark.parametrize("position", ALL[7::97], ids=str)
def test_stored_measures_match_computed_ones(position):
    stored, measured = get_measures(position), dict(zip(clouds.MEASURES, measure_scores(position), strict=True))
    # Equal eigenvalues have arbitrary eigenvectors, which differ between processors.
    if (position.shape, position.spread, position.shift) == ("line", 0, 1):
        del stored["partition"], measured["partition"]
    # The fifth digit can differ between processors, which sum in different orders.
    assert stored == pytest.approx(measured, rel=2e-5, abs=1e-12)


def test_nearest_position_keeps_shape():
    assert clouds.snap_to_grid(Position("circle", 0.31, 2.4, 100)) == Position("circle", 0.4, 2.0, 128)
    assert clouds.snap_to_grid(Position("line", -3.0, 1e9, -1)) == Position("line", 0.0, 7.0, 8)
    sentence = r"Expected a shape among line, circle, .*, got 'torus': choose one."
    with pytest.raises(InvalidError, match=sentence) as refused:
        clouds.snap_to_grid(Position("torus", 0.0, 0.0, 8))
    assert refused.value.field == "shape"
    assert clouds.require_measured_position(Position("line", 1.0, 7.0, 2000)) == Position("line", 1.0, 7.0, 2000)


@pytest.mark.parametrize(
    ("position", "field", "sentence"),
    [
        (Position("torus", 0.0, 0.0, 8), "shape",
         "Expected a shape among line, circle, sphere, gaussian, cone, skewed, got 'torus': choose one."),
        (Position("line", 0.25, 0.0, 8), "spread", "Nothing was measured at spread = 0.25: take 0.2 or 0.4."),
        (Position("line", 0.0, 9.5, 8), "shift", "Nothing was measured at shift = 9.5: take 7."),
        (Position("line", 0.0, 0.0, 1), "n", "Nothing was measured at n = 1: take 8."),
        (Position("line", 0.0, 0.0, 10**400), "n", f"Nothing was measured at n = {10**400}: take 2000."),
    ],
)  # fmt: skip
def test_position_off_grid_is_refused_with_nearest_values(position, field, sentence):
    with pytest.raises(InvalidError) as refused:
        clouds.require_measured_position(position)
    assert (refused.value.field, refused.value.message) == (field, sentence)


def test_mean_cosine_follows_shift_and_isoscore_follows_n():
    centered, shifted = (get_measures(Position("gaussian", 1.0, shift, 512)) for shift in (0.0, 7.0))
    assert (round(centered["mean_cosine"], 2), round(shifted["mean_cosine"], 2)) == (0, 0.99)
    assert centered["isoscore"] == shifted["isoscore"] > 0.98
    small, large = (get_measures(Position("gaussian", 1.0, 0.0, n)) for n in (8, 2000))
    assert small["isoscore"] < 0.6
    assert large["isoscore"] > 0.99
    assert small["isoscore_unbiased"] == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("position", "words"),
    [
        (Position("gaussian", 1.0, 7.0, 512), "0.99 because the cloud lies away from the origin; around the origin"),
        (Position("gaussian", 1.0, 7.0, 512), "Its spread has not changed: IsoScore is 0.99 in both places."),
        (Position("gaussian", 1.0, 0.0, 512), "and even, so that the mean cosine is 0.00. Now move the shift."),
        (Position("line", 0.0, 0.0, 512), "IsoScore is 0.00: all variance lies on one line. A cosine near 0 is not"),
        (Position("circle", 0.0, 0.0, 512), "IsoScore is 0.50: some directions hold less variance than others."),
        (Position("skewed", 0.0, 0.0, 512), "0.11 although the mean is the origin: the points crowd on one side"),
        (Position("sphere", 1.0, 0.0, 8), "but 8 points of it are too few to show that: their mean cosine is −0.11."),
        (Position("gaussian", 1.0, 0.0, 8), "low: it is 0.59 of 8 points and 1.00 of 2,000 of the same cloud. The"),
        (Position("gaussian", 1.0, 7.0, 8), "IsoScore is 0.59 in both places. Few rows make IsoScore low"),
    ],
)
def test_explanation_describes_measures(position, words):
    assert words in clouds.explain_measures(position)


def test_explanation_omits_harmless_few_rows_and_minus_zero():
    assert "Few rows" not in clouds.explain_measures(Position("gaussian", 1.0, 0.0, 512))
    assert "Few rows" not in clouds.explain_measures(Position("line", 0.0, 0.0, 8))
    assert not [position for position in ALL if "−0.00" in clouds.explain_measures(position)]


def variances(points):
    return np.linalg.eigvalsh(np.cov(points.T))[::-1]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", clouds.SIZES)
def test_cloud_has_mean_at_shift_and_unit_size(shape, n):
    for spread in SPREADS:
        for shift in SHIFTS:
            points = generate_cloud(shape, spread, shift, n)
            assert points.shape == (n, 3)
            assert points.mean(0) == pytest.approx([shift, 0, 0], abs=1e-12)
            assert np.square(points - [shift, 0, 0]).sum(1).mean() == pytest.approx(1)


def test_shapes_without_spread_are_flat():
    assert variances(generate_cloud("line", 0, 0, MAX_POINTS))[1:] == pytest.approx([0, 0], abs=1e-15)
    circle = generate_cloud("circle", 0, 0, MAX_POINTS)
    assert circle[:, 2] == pytest.approx(0, abs=1e-15)
    center = np.linalg.lstsq(np.c_[2 * circle[:, :2], np.ones(MAX_POINTS)], np.square(circle).sum(1))[0][:2]
    radii = np.linalg.norm(circle[:, :2] - center, axis=1)
    assert radii == pytest.approx(radii[0])
    sphere = generate_cloud("sphere", 1, 0, MAX_POINTS)
    center = np.linalg.lstsq(np.c_[2 * sphere, np.ones(MAX_POINTS)], np.square(sphere).sum(1))[0][:3]
    radii = np.linalg.norm(sphere - center, axis=1)
    assert radii == pytest.approx(radii[0])
    assert generate_cloud("sphere", 0, 0, MAX_POINTS)[:, 2] == pytest.approx(0, abs=1e-15)


def test_spread_sets_form_of_gaussian_cone_and_skewed_clouds():
    deviations = generate_cloud("gaussian", 0.4, 0, MAX_POINTS).std(0)
    assert deviations / deviations[0] == pytest.approx([1, 0.7, 0.4], rel=0.05)
    for spread in (0.4, 1):
        cone = generate_cloud("cone", spread, 0, MAX_POINTS)
        along, radii = cone[:, 0] - cone[:, 0].min(), np.linalg.norm(cone[:, 1:], axis=1)
        assert radii.max() / along.max() == pytest.approx(spread / 2, rel=0.12)
        assert radii[along < along.max() / 4].max() < radii.max() / 2

    def skewness(points):
        return (points**3).mean(0) / points.std(0) ** 3

    assert skewness(generate_cloud("skewed", 1, 0, MAX_POINTS)).min() > 1
    assert skewness(generate_cloud("gaussian", 1, 0, MAX_POINTS)) == pytest.approx(0, abs=0.15)


@pytest.mark.parametrize("shape", SHAPES)
def test_full_spread_is_isotropic_and_small_cloud_is_prefix(shape):
    smallest, greatest = variances(generate_cloud(shape, 1, 0, MAX_POINTS))[[2, 0]]
    assert smallest / greatest > 0.85
    small, large = generate_cloud(shape, 1, 0, 32), generate_cloud(shape, 1, 0, MAX_POINTS)[:32]
    large = large - large.mean(0)
    assert small == pytest.approx(large / np.sqrt(np.square(large).sum(1).mean()))


SHIFTED = Position("cone", 1.0, 2.0, 32)


def scatters_of(figure):
    return {trace.marker.color: trace for trace in figure.draw().data if trace.mode == "markers"}


def test_shifted_cloud_is_drawn_beside_original():
    scatters = scatters_of(cloud_figure(SHIFTED))
    assert scatters[MAIN].x == pytest.approx([x + 2 for x in scatters[QUIET].x], abs=2e-4)
    assert scatters[MAIN].y == scatters[QUIET].y
    (line,) = (trace for trace in cloud_figure(SHIFTED).draw().data if trace.marker.color == MARKED)
    assert (line.x, line.y, line.z) == ((0, 2), (0, 0), (0, 0))
    figure = cloud_figure(SHIFTED._replace(shift=0.0))
    assert scatters_of(figure)[QUIET].x == ()
    assert "Gray" not in figure.caption
    table = cloud_figure(SHIFTED).table
    assert table.columns == ["x", "y", "z"]
    assert table.rows[5] == pytest.approx(generate_cloud(*SHIFTED)[5], abs=5e-5)


def test_axes_and_camera_do_not_depend_on_cloud():
    positions = (SHIFTED, SHIFTED._replace(shift=7.0), SHIFTED._replace(n=8))
    layouts = [cloud_figure(position).draw().layout for position in positions]
    assert len({layout.uirevision for layout in layouts}) == 1
    assert layouts[0].uirevision
    assert len({(fig.scene.xaxis.range, fig.scene.yaxis.range, fig.scene.zaxis.range) for fig in layouts}) == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_every_point_lies_within_axes(shape):
    for spread in SPREADS:
        for shift in (SHIFTS[0], SHIFTS[-1]):
            points = generate_cloud(shape, spread, shift, 2000)
            for axis, (low, high) in enumerate(RANGES):
                assert low < points[:, axis].min()
                assert points[:, axis].max() < high


def test_flat_cloud_is_drawn_in_three_planes():
    drawn = cloud_figure(SHIFTED, flat=True).draw()
    assert len([trace for trace in drawn.data if trace.marker.color == MAIN]) == 3
    assert {trace.type for trace in drawn.data} == {"scatter"}
    assert [drawn.layout[f"yaxis{panel}"].scaleanchor for panel in ("", 2, 3)] == ["x", "x2", "x3"]
    assert [drawn.layout[f"xaxis{panel}"].title.text for panel in ("", 2, 3)] == ["x", "y", "x"]


def test_shift_figure_draws_two_measures_and_tabulates_all():
    position = SHIFTED._replace(n=512)
    figure = shift_figure(position)
    numbers = get_measures(position)
    lines = [trace for trace in figure.draw().data if trace.mode == "lines+text"]
    assert [line.text[-1].strip() for line in lines] == ["Mean cosine", "IsoScore"]
    marks = [trace for trace in figure.draw().data if trace.mode == "markers+text"]
    assert [(mark.x[0], mark.y[0]) for mark in marks] == [(2, numbers["mean_cosine"]), (2, numbers["isoscore"])]
    assert [mark.textposition.split()[0] for mark in marks] == ["bottom", "top"]
    table = shift_figure(SHIFTED).table
    assert table.columns == ["shift", *clouds.MEASURES]
    assert table.rows[2] == [2, *get_measures(SHIFTED).values()]
