import IsoScore.IsoScore
import numpy as np
import pytest
import torch

from isotropy.isoscore import ShrinkageCurve, isoscore, isoscore_from_covariance, isoscore_star
from isotropy.spectrum import Moments, scaled_identity, shrink


def recipe(eigenvalues):
    d = len(eigenvalues)
    normed = np.sqrt(d) * eigenvalues / np.linalg.norm(eigenvalues)
    defect = np.linalg.norm(normed - 1) / np.sqrt(2 * (d - np.sqrt(d)))
    used = (d - defect**2 * (d - np.sqrt(d))) ** 2 / d**2
    return (d * used - 1) / (d - 1)


def cloud(n, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    spreads = torch.rand(d, dtype=torch.float64, generator=generator) ** 2 + 0.01
    turn, _ = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64, generator=generator))
    return 3 + torch.randn(n, d, dtype=torch.float64, generator=generator) * spreads @ turn


@pytest.fixture
def exact_package():
    """The package takes square roots in the default dtype; float64 avoids an error of 6e-8."""
    torch.set_default_dtype(torch.float64)
    yield IsoScore.IsoScore
    torch.set_default_dtype(torch.float32)


@pytest.mark.measure("isoscore")
@pytest.mark.parametrize(("n", "d"), [(1000, 2), (1000, 8), (500, 64), (50, 300), (1500, 768)])
def test_isoscore_matches_package_on_generated_clouds(exact_package, n, d):
    x = cloud(n, d)
    assert isoscore(x).value == pytest.approx(float(exact_package.IsoScore(x.numpy())), rel=1e-7)


@pytest.mark.parametrize("rows", [100, 301, 8000])
def test_isoscore_matches_package_on_word2vec(exact_package, word2vec, rows):
    x = word2vec[:rows].double()
    assert isoscore(x).value == pytest.approx(float(exact_package.IsoScore(x.numpy())), rel=1e-7)


def test_points_are_rows_as_in_package(exact_package):
    x = cloud(1000, 8)
    assert isoscore(x.T).value == pytest.approx(float(exact_package.IsoScore(x.T.numpy())), rel=1e-7)
    assert isoscore(x.T).value < 0.01 < isoscore(x).value


@pytest.mark.measure("isoscore_star")
@pytest.mark.parametrize("zeta", [0.0, 0.2, 0.75, 1.0])
def test_isoscore_star_forms_match_package(exact_package, zeta):
    x, S_S = cloud(40, 24), torch.cov(cloud(2000, 24, seed=1).T)
    expected = float(exact_package.IsoScore_star(x.numpy(), S_S, zeta))
    S = shrink(torch.cov(x.T), S_S, zeta)
    curve = ShrinkageCurve.from_covariances(torch.cov(x.T), S_S)
    assert float(isoscore_star(x, zeta, S_S)) == pytest.approx(expected, rel=1e-7)
    assert isoscore_from_covariance(S).value == pytest.approx(expected, rel=1e-7)
    assert float(curve.isoscore_star(torch.tensor(zeta))) == pytest.approx(expected, rel=1e-7)
    assert float(exact_package.IsoScore_cov(S.numpy())) == pytest.approx(expected, rel=1e-7)


def test_isoscores_of_word2vec_match_package_and_stored_value(exact_package, word2vec):
    moments = Moments(300)
    moments.update(word2vec.double())
    x, S_S = word2vec[:200].double(), moments.covariance()
    expected = float(exact_package.IsoScore_star(x.numpy(), S_S, 0.2))
    assert float(isoscore_star(x, 0.2, S_S)) == pytest.approx(expected, rel=1e-7)
    assert isoscore(word2vec).value == pytest.approx(isoscore(word2vec.double()).value, rel=1e-7)
    assert isoscore(word2vec).value == pytest.approx(0.609295545, rel=1e-7)


@pytest.mark.parametrize("d", [2, 3, 10, 100, 768])
def test_closed_form_matches_published_recipe(d):
    S = torch.cov(cloud(2 * d, d).T)
    assert isoscore_from_covariance(S).value == pytest.approx(recipe(np.linalg.eigvalsh(S.numpy())), rel=1e-10)


def test_published_recipe_scores_identity_line_and_few_points():
    assert recipe(np.ones(10)) == pytest.approx(1)
    assert recipe(np.eye(10)[0]) == pytest.approx(0)
    x = cloud(20, 300)
    singular = np.linalg.svd((x - x.mean(0)).numpy(), compute_uv=False)
    spectrum = np.zeros(300)
    spectrum[:20] = singular**2 / 19
    assert isoscore(x).value == pytest.approx(recipe(spectrum), rel=1e-10)


def by_autograd(x, zeta, S_S):
    S = (1 - zeta) * torch.cov(x.T) + zeta * S_S
    return (S.trace() ** 2 / (S @ S).trace() - 1) / (len(S) - 1)


@pytest.mark.parametrize("zeta", [0.0, 0.2, 0.8])
@pytest.mark.parametrize(("n", "d"), [(40, 6), (5, 12)])
def test_gradient_matches_autograd(n, d, zeta):
    S_S = scaled_identity(torch.cov(cloud(50, d, seed=1).T))
    ours, theirs = (cloud(n, d).requires_grad_() for _ in range(2))
    isoscore_star(ours, zeta, S_S).backward()
    by_autograd(theirs, zeta, S_S).backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("zeta", [0.0, 0.3])
def test_gradient_matches_finite_differences(zeta):
    S_S = torch.diag(torch.arange(1.0, 5.0, dtype=torch.float64))
    x = cloud(7, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda points: isoscore_star(points, zeta, S_S), (x,))
