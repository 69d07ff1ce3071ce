"""Centering, standardization, removal of components and whitening: edge cases of each."""

import pytest
import torch

from isotropy.isoscore import isoscore
from isotropy.postprocess.components import principal_components
from isotropy.postprocess.removal import fit_all_but_the_top, fit_weighted_removal
from isotropy.postprocess.whitening import (
    fit_centering,
    fit_pca_whitening,
    fit_soft_zca,
    fit_standardisation,
    fit_zca_whitening,
)
from isotropy.spectrum import covariance


def gaussian(n, d, seed=0, dtype=torch.float64):
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def variances_of(*variances):
    arms = torch.tensor(variances, dtype=torch.float64).sqrt().diag() * ((2 * len(variances) - 1) / 2) ** 0.5
    return torch.cat([arms, -arms])


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_constant_dimension_standardizes_to_zero(dtype):
    points = gaussian(10_000, 3, dtype=dtype)
    points[:, 1] = 0.1
    new = gaussian(5, 3, seed=1, dtype=dtype)
    images = fit_standardisation(points).apply(new)
    assert not images[:, 1].any()
    assert images[:, [0, 2]].all()


def test_rounding_noise_counts_as_constant():
    points = gaussian(50, 2, dtype=torch.float32)
    points[:, 0] = 1000 * (1 + torch.arange(50) % 2 * torch.finfo(torch.float32).eps)
    assert points[:, 0].unique().numel() == 2
    assert not fit_standardisation(points).apply(points)[:, 0].any()
    assert not fit_pca_whitening(points).apply(points)[:, 1].any()
    plane = gaussian(500, 2) @ gaussian(2, 6, seed=1)
    fitted = fit_zca_whitening((1000 + plane).float())
    assert torch.linalg.matrix_rank(fitted.matrix) == 2
    torch.testing.assert_close(fit_zca_whitening(1000 + plane).matrix, fitted.matrix, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("d", "D"), [(3, 1), (199, 1), (200, 2), (768, 7)])
@pytest.mark.parametrize("fit", [fit_all_but_the_top, fit_weighted_removal])
def test_default_removes_one_in_100_dimensions(fit, d, D):
    assert fit(gaussian(20, d)).directions.shape == (D, d)


def test_all_but_the_top_removes_strongest_components():
    fitted = fit_all_but_the_top(5 + variances_of(1, 9, 4), D=2)
    images = fitted.apply(5 + torch.tensor([[7.0, 8.0, 9.0]], dtype=torch.float64))
    torch.testing.assert_close(images, torch.tensor([[7.0, 0.0, 0.0]], dtype=torch.float64))
    points = gaussian(30, 4)
    torch.testing.assert_close(fit_all_but_the_top(points, 0).apply(points), fit_centering(points).apply(points))
    assert fit_all_but_the_top(points, 4).apply(points).abs().max() < 1e-14


def test_directions_beyond_rank_are_not_removed():
    points = gaussian(3, 6)
    fitted = fit_all_but_the_top(points, 5)
    assert fitted.directions.shape == (2, 6)
    new = gaussian(1, 6, seed=1)
    centered = new - fitted.mean
    squares = fitted.apply(new).norm() ** 2 + (fitted.directions @ centered.T).norm() ** 2
    torch.testing.assert_close(squares, centered.norm() ** 2)


@pytest.mark.parametrize("D", [-1, 5])
@pytest.mark.parametrize("fit", [fit_all_but_the_top, fit_weighted_removal])
def test_too_many_components_are_refused(fit, D):
    with pytest.raises(ValueError, match=f"Expected 0 <= D <= d = 4 components to remove, got {D}: there are d direct"):
        fit(gaussian(30, 4), D)


@pytest.mark.parametrize("D", [3, 4])
def test_weights_without_other_variances_level_to_smallest(D):
    points = torch.nn.functional.pad(variances_of(16, 9, 4), (0, 1))
    fitted = fit_weighted_removal(points, D)
    assert fitted.weights.tolist() == pytest.approx([1 / 2, 1 / 3, 0], abs=1e-12)


def test_whitening_few_points_keeps_only_their_directions():
    points = gaussian(4, 10)
    pca, zca = fit_pca_whitening(points), fit_zca_whitening(points)
    assert torch.linalg.matrix_rank(pca.matrix) == torch.linalg.matrix_rank(zca.matrix) == 3
    assert not pca.apply(points)[:, 3:].any()
    for whitening in (pca, zca):
        assert isoscore(whitening.apply(points)).value == pytest.approx((3 - 1) / (10 - 1), rel=1e-9)
        assert whitening.apply(1000 * gaussian(1, 10, seed=1)).abs().max() < 1e5
    spread = torch.linalg.eigvalsh(covariance(zca.apply(points)))
    assert spread.tolist() == pytest.approx([0] * 7 + [1] * 3, abs=1e-9)


@pytest.mark.parametrize("n", [500, 60])
@pytest.mark.parametrize(("dtype", "far"), [(torch.bfloat16, 70), (torch.float16, 1000)])
def test_far_dimension_in_half_precision_costs_only_itself(dtype, far, n):
    points = 0.3 * gaussian(n, 40 if n == 500 else 128)
    points[:, 5] = far
    components = principal_components(points.to(dtype))
    assert components.rank == (39 if n == 500 else 59)
    assert components.directions[:, 5].abs().max() < 1e-6
    points[:, 5] += 20 * gaussian(n, 1, seed=1)[:, 0]
    components = principal_components(points.to(dtype))
    assert components.rank == (40 if n == 500 else 59)
    assert components.directions[0, 5] > 0.99


@pytest.mark.parametrize("n", [6, 30, 1000])
def test_directions_of_rounding_noise_are_dropped(n):
    plane = gaussian(n, 2) @ gaussian(2, 300, seed=1)
    for dtype in (torch.float32, torch.float16):
        assert principal_components((100 + plane).to(dtype)).rank == 2
        assert principal_components((plane + 100 * gaussian(1, 300, seed=2)).to(dtype)).rank == 2


def test_soft_zca_is_zca_at_eps_0_and_scaling_at_large_eps():
    points = gaussian(40, 3)
    torch.testing.assert_close(fit_soft_zca(points, 0).matrix, fit_zca_whitening(points).matrix)
    scaling = 1e-6 * torch.eye(3, dtype=torch.float64)
    torch.testing.assert_close(fit_soft_zca(points, 1e12).matrix, scaling, rtol=1e-9, atol=1e-15)
    points = torch.nn.functional.pad(gaussian(40, 2), (0, 1))
    images = fit_soft_zca(points, 0.25).apply(torch.tensor([[0.0, 0.0, 3.0]], dtype=torch.float64))
    assert images[0, 2] == pytest.approx(6)


@pytest.mark.parametrize("eps", [-1e-9, float("inf"), float("nan")])
def test_invalid_eps_is_refused(eps):
    with pytest.raises(
        ValueError, match=f"Expected eps of at least 0, finite, got {eps}: 0 whitens fully, more whiten"
    ):
        fit_soft_zca(gaussian(9, 2), eps)
