import pytest
import torch
from clouds import clouds, rotation, seeds
from hypothesis import assume, given
from hypothesis import strategies as st

from isotropy.isoscore import isoscore
from isotropy.postprocess import whitening
from isotropy.postprocess.components import principal_components
from isotropy.postprocess.held_out import held_out
from isotropy.postprocess.methods import FITTERS, fit
from isotropy.postprocess.removal import Removal, fit_all_but_the_top, fit_weighted_removal
from isotropy.spectrum import eigenvalues

QUICK = {"cluster_based": {"clusters": 2}, "flow": {"steps": 3, "layers": 2, "hidden": 3}}


def assert_near(images, expected, size):
    torch.testing.assert_close(images, expected, rtol=1e-7, atol=1e-7 * float(size))


def well_separated(points, D):
    values = eigenvalues(torch.cov(points.T))
    rank = principal_components(points).rank
    gap = rank <= D or values[D - 1] - values[D] > 1e-3 * values[0]
    return gap and rank > 0 and values[rank - 1] > 1e-6 * values[0]


@given(clouds(min_n=3), st.sampled_from(sorted(FITTERS)))
def test_single_rows_have_same_images(x, method):
    fitted = fit(method, x, **QUICK.get(method, {}))
    images = fitted.apply(x)
    single = torch.cat([fitted.apply(row[None]) for row in x])
    torch.testing.assert_close(single, images, rtol=1e-9, atol=1e-9 * float(1 + images.abs().max()))


@given(clouds(min_n=3), seeds, st.integers(0, 3))
def test_centering_removal_and_zca_follow_rotation(x, seed, D):
    D = min(D, x.shape[1])
    assume(well_separated(x, D))
    turn = rotation(x.shape[1], seed)
    for method in (
        whitening.fit_centering,
        lambda points: fit_all_but_the_top(points, D),
        lambda points: fit_weighted_removal(points, D),
        whitening.fit_zca_whitening,
        whitening.fit_partial_whitening,
        whitening.fit_soft_zca,
    ):
        expected = method(x).apply(x) @ turn
        images = method(x @ turn).apply(x @ turn)
        torch.testing.assert_close(images, expected, rtol=1e-6, atol=1e-6 * float(1 + expected.abs().max()))


@given(clouds(), st.integers(0, 12))
def test_centering_and_removal_are_idempotent(x, D):
    D = min(D, x.shape[1])
    once = whitening.fit_centering(x).apply(x)
    assert_near(whitening.fit_centering(once).apply(once), once, x.abs().max())
    fitted = fit_all_but_the_top(x, D)
    once = fitted.apply(x)
    again = Removal(torch.zeros_like(fitted.mean), fitted.directions, fitted.weights)
    assert_near(again.apply(once), once, x.abs().max())
    assert_near(fitted.apply(once + fitted.mean), once, x.abs().max())


@given(clouds(), st.integers(0, 12), seeds)
def test_weighted_removal_maximizes_isoscore(x, D, seed):
    D = min(D, x.shape[1])
    best = fit_weighted_removal(x, D)
    assert ((best.weights >= 0) & (best.weights <= 1)).all()
    best_score = isoscore(best.apply(x)).value
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand(8, len(best.weights), dtype=torch.float64, generator=generator)
    for weights in [*drawn, torch.zeros_like(best.weights), best.weights * 0.99]:
        alternative = isoscore(Removal(best.mean, best.directions, weights).apply(x)).value
        assert alternative <= best_score + 1e-9


@given(clouds(min_n=3))
def test_standardised_dimensions_have_mean_0_and_variance_1(x):
    images = whitening.fit_standardisation(x).apply(x)
    torch.testing.assert_close(images.mean(0), torch.zeros(x.shape[1], dtype=x.dtype), atol=1e-6, rtol=0)
    torch.testing.assert_close(images.var(0, correction=0), torch.ones(x.shape[1], dtype=x.dtype))


@given(clouds())
def test_whitened_points_have_unit_covariance(x):
    rank = principal_components(x).rank
    assume(rank > 0 and well_separated(x, rank))
    for method in (whitening.fit_pca_whitening, whitening.fit_zca_whitening):
        spectrum = eigenvalues(torch.cov(method(x).apply(x).T))
        expected = (torch.arange(x.shape[1]) < rank).double()
        torch.testing.assert_close(spectrum, expected, rtol=1e-6, atol=1e-6)


@given(clouds(min_n=20, max_n=30, max_d=8), seeds)
def test_whitening_is_isotropic_on_fitted_rows_only(x, seed):
    split = held_out(x, whitening.fit_zca_whitening, seed=seed)
    assert isoscore(split.in_sample.after).value == pytest.approx(1, abs=1e-6)
    # Two directions of ten points may come close by chance.
    assert isoscore(split.held_out.after).value < 1 - 1e-6


@given(clouds(), st.floats(0.1, 10), st.floats(0, 10))
def test_soft_zca_divides_variances_by_variance_plus_eps(x, scale, eps):
    values = eigenvalues(torch.cov((x * scale).T))
    variances = eigenvalues(torch.cov(whitening.fit_soft_zca(x * scale, eps + 1e-3).apply(x * scale).T))
    torch.testing.assert_close(variances, values / (values + eps + 1e-3), rtol=1e-6, atol=1e-6)


@given(clouds(min_n=4), seeds)
def test_flow_inverse_restores_new_points(x, seed):
    fitted = fit("flow", x, steps=5, layers=3, hidden=4, rate=0.05, seed=seed)
    assume(fitted.scale.max() < 1e6 * fitted.scale.min())
    new = x + torch.randn(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(seed))
    assert_near(fitted.inverse(fitted.apply(new)), new, 1 + new.abs().max())
