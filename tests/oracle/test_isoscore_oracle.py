from itertools import permutations, product

import numpy as np
import pytest
import torch
from dimensionality import participation_ratio

from isotropy import unbiased
from isotropy.isoscore import ShrinkageCurve, isoscore, isoscore_from_covariance, isoscore_star
from isotropy.spectrum import scaled_identity, shrink
from tests.points import fourth_moments_of, moments_of


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
    x, S_S = word2vec[:200].double(), moments_of(word2vec.double()).covariance()
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


def package_score(x):
    """Return the score of Chun et al. (2026): ``row`` is the participation ratio corrected for few rows."""
    return (participation_ratio(x.double().numpy(), return_all=True)["row"] - 1) / (x.shape[1] - 1)


def enumerate_statistics(x, groups):
    """Return the estimates of tr(S)^2 and tr(S S) by definition: averages over four rows of distinct groups."""
    kernels = []
    for chosen in permutations(range(len(x)), 4):
        if len({groups[row] for row in chosen}) == 4:
            i, j, k, m = x.numpy()[list(chosen)]
            kernels.append((((i - j) @ (i - j)) * ((k - m) @ (k - m)) / 4, ((i - j) @ (k - m)) ** 2 / 4))
    return np.mean(kernels, axis=0)


def uneven_cloud(n, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    spreads = torch.rand(d, dtype=torch.float64, generator=generator) + 0.1
    return 3 + torch.randn(n, d, dtype=torch.float64, generator=generator) * spreads


@pytest.mark.measure("isoscore_unbiased")
@pytest.mark.measure("participation_ratio_unbiased")
@pytest.mark.parametrize(("n", "d"), [(4, 2), (5, 9), (7, 3), (8, 8)])
def test_both_forms_match_enumerated_u_statistics(n, d):
    x = uneven_cloud(n, d)
    trace_squared, squares = enumerate_statistics(x, range(n))
    expected = pytest.approx((trace_squared / squares - 1) / (d - 1), rel=1e-7)
    assert unbiased.isoscore_unbiased_from_moments(fourth_moments_of(x)).value == expected
    ratio = unbiased.corrected_scores_from_moments(fourth_moments_of(x))["participation_ratio_unbiased"]
    assert ratio.value == pytest.approx(trace_squared / squares, rel=1e-7)
    assert unbiased.isoscore_unbiased(x).value == expected
    trace = float(torch.cov(x.T).trace())
    estimates = np.array(unbiased.trace_estimates(fourth_moments_of(x))) * trace**2
    np.testing.assert_allclose(estimates, (trace_squared, squares), rtol=1e-9, atol=1e-12 * trace**2)


@pytest.mark.parametrize("scale", [1.0, 1e-60, 1e60])
@pytest.mark.parametrize("blocks", [[0, 0, 1, 2, 3], [3, 1, 1, 0, 0, 2, 3, 4], [6, 5, 0, 1, 4, 2, 6, 3, 5]])
def test_block_scores_match_u_statistics_over_distinct_blocks(blocks, scale):
    x, codes = uneven_cloud(len(blocks), 4), torch.tensor(blocks)
    trace_squared, squares = enumerate_statistics(x, blocks)
    moments = [fourth_moments_of(scale * x[codes == block]) for block in codes.unique()]
    scores = unbiased.scores_across_blocks(unbiased.BlockProducts(moments))
    ratio = trace_squared / squares
    assert scores["isoscore_unbiased"].value == pytest.approx((ratio - 1) / 3, rel=1e-9)
    assert scores["participation_ratio_unbiased"].value == pytest.approx(ratio, rel=1e-9)


def test_trace_estimates_are_unbiased_over_all_samples():
    population = torch.tensor([[0.0, 1.0], [2.0, -1.0], [5.0, 3.0]], dtype=torch.float64)
    totals = np.zeros(2)
    for drawn in product(range(3), repeat=5):
        moments = fourth_moments_of(population[list(drawn)])
        trace = float(moments.covariance().trace())
        if trace > 0:
            totals += np.array(unbiased.trace_estimates(moments)) * trace**2
    S = torch.cov(population.T, correction=0)
    expected = [float(S.trace() ** 2), float((S @ S).trace())]
    np.testing.assert_allclose(totals / 3**5, expected, rtol=1e-12)


@pytest.mark.parametrize(("n", "d"), [(5, 40), (60, 300), (300, 60), (700, 128)])
def test_isoscore_unbiased_matches_package_on_generated_clouds(n, d):
    x = uneven_cloud(n, d)
    assert unbiased.isoscore_unbiased(x).value == pytest.approx(package_score(x), rel=1e-7)
    assert unbiased.isoscore_unbiased_from_moments(fourth_moments_of(x)).value == pytest.approx(
        package_score(x), rel=1e-7
    )


@pytest.mark.parametrize("rows", [40, 299, 1500])
def test_isoscore_unbiased_matches_package_on_word2vec(word2vec, rows):
    x = word2vec[:rows]
    assert unbiased.isoscore_unbiased(x.double()).value == pytest.approx(package_score(x), rel=1e-7)
    assert unbiased.isoscore_unbiased(x).value == pytest.approx(package_score(x), rel=1e-4)


def test_isoscore_unbiased_of_few_points_averages_to_population():
    variances = torch.arange(1, 97, dtype=torch.float64) ** -0.5
    population = float((variances.sum() ** 2 / variances.square().sum() - 1) / 95)
    generator = torch.Generator().manual_seed(0)
    draws = torch.randn(200, 64, 96, dtype=torch.float64, generator=generator) * variances.sqrt()
    corrected = np.mean([unbiased.isoscore_unbiased(x).value for x in draws])
    plain = np.mean([isoscore(x).value for x in draws])
    assert corrected == pytest.approx(population, rel=0.02)
    assert plain < 0.6 * population
