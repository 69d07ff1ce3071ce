import numpy as np
import pytest

from app.playground.clouds import MAX_POINTS, SHAPES, SHIFTS, SIZES, SPREADS, generate_cloud


def variances(points):
    return np.linalg.eigvalsh(np.cov(points.T))[::-1]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", SIZES)
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
