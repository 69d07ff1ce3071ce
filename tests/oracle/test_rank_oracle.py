import numpy as np
import pytest
import torch
from scipy.stats import entropy

from isotropy.anisotropy import second_moment
from isotropy.rank import alpha_req, effective_rank, explained_variance, rankme, stable_rank
from isotropy.spectrum import Moments, eigenvalues


def spectra(x):
    moments = Moments(x.shape[1])
    moments.update(x)
    centered = eigenvalues(moments.covariance(), moments.n - 1)
    return centered, eigenvalues(second_moment(moments), moments.n)


def singular_values(x, *, centered):
    x = x.double().numpy()
    return np.linalg.svd(x - x.mean(0) if centered else x, compute_uv=False)


def unchanged(x):
    return x


def in_subspace(x):
    columns = x[:, :12]
    generator = torch.Generator().manual_seed(1)
    return columns @ torch.randn(columns.shape[1], x.shape[1], dtype=torch.float64, generator=generator)


def with_few_distinct_rows(x):
    return x[torch.arange(len(x)) % 9]


def off_origin(x):
    return x + 50


@pytest.fixture(params=[(500, 40), (40, 500), (41, 40), (40, 41), (3, 7)], ids=str)
def shape(request):
    return request.param


@pytest.fixture(params=[unchanged, in_subspace, with_few_distinct_rows, off_origin])
def x(request, shape):
    n, d = shape
    generator = torch.Generator().manual_seed(n + d)
    spreads = torch.arange(1, d + 1, dtype=torch.float64) ** -0.7
    return request.param(1 + torch.randn(n, d, dtype=torch.float64, generator=generator) * spreads)


@pytest.fixture(params=[60, 299, 300, 3000])
def words(request, word2vec):
    return word2vec[: request.param]


def check(x, tolerance):
    centered, raw = spectra(x)
    sigma, weights = singular_values(x, centered=True), singular_values(x, centered=False)
    sigma[sigma < 1e-13 * sigma[0] * len(x)] = 0  # rounding, where the rank is less than full
    weights = weights / weights.sum() + 1e-7
    scores = [
        effective_rank(centered, "sigma"),
        effective_rank(centered, "lambda"),
        rankme(raw, len(x)),
        stable_rank(centered),
    ]
    values = [score.value for score in (*scores, *explained_variance(centered, len(sigma)))]
    expected = [np.exp(entropy(sigma)), np.exp(entropy(sigma**2)), np.exp(-(weights * np.log(weights)).sum())]
    expected += [(np.linalg.norm(sigma) / sigma[0]) ** 2, *(sigma**2).cumsum() / (sigma**2).sum()]
    np.testing.assert_allclose(values, expected, rtol=tolerance)


@pytest.mark.measure("effective_rank", "effective_rank_lambda", "rankme", "stable_rank", "explained_variance")
def test_ranks_match_singular_values_on_generated_clouds(x):
    check(x, 1e-7)


def test_ranks_match_singular_values_on_word2vec(words):
    check(words.double(), 1e-7)
    check(words, 1e-4)


def slope(sigma, first, last):
    ranks = np.arange(first, min(last, len(sigma)) + 1)
    return -np.polyfit(np.log(ranks), 2 * np.log(sigma[ranks - 1]), 1, w=ranks**-0.5)[0]


@pytest.mark.measure("alpha_req")
@pytest.mark.parametrize("window", [(4, 100), (1, 40), (11, 500)])
def test_alpha_matches_weighted_least_squares_on_word2vec(word2vec, window):
    centered, _ = spectra(word2vec.double())
    expected = slope(singular_values(word2vec, centered=True), *window)
    assert alpha_req(centered, window).value == pytest.approx(expected, rel=1e-7)
    single, _ = spectra(word2vec)
    assert alpha_req(single, window).value == pytest.approx(expected, rel=1e-4)


def test_alpha_fits_few_points_and_known_exponent(word2vec):
    x = word2vec[:60].double()
    expected = slope(singular_values(x, centered=True)[:59], 4, 100)
    assert alpha_req(spectra(x)[0]).value == pytest.approx(expected, rel=1e-7)
    # Points +-i^(-a/2) along orthonormal directions have the eigenvalues i^-a.
    arms = torch.diag(torch.arange(1, 131, dtype=torch.float64) ** -0.6)
    assert alpha_req(spectra(torch.cat([arms, -arms]))[0]).value == pytest.approx(1.2, rel=1e-9)
