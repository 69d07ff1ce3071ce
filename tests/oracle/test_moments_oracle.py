import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist
from scipy.stats import median_abs_deviation

from isotropy.activation import activation_profile
from isotropy.anisotropy import anisotropy, mean_share, second_moment
from isotropy.cosine import CosineMoments, cosine_histogram
from isotropy.spectrum import CHUNK_ROWS, eigenvalues
from tests.points import moments_of
from tests.rounding import likely


@pytest.fixture
def x():
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(16, 16, dtype=torch.float64, generator=generator)
    return 2 + torch.randn(9000, 16, dtype=torch.float64, generator=generator) @ mixing


def max_rounding(covariance):
    """Return the rounding error of float32 sums of a chunk, per element."""
    spread = np.sqrt(covariance.diagonal())
    return likely(CHUNK_ROWS, torch.float32) * np.outer(spread, spread)


@pytest.mark.measure("spectrum", "mean_share")
def test_moments_and_mean_share_match_numpy(x):
    moments = moments_of(x)
    np.testing.assert_allclose(moments.mean, x.numpy().mean(0), rtol=1e-12)
    np.testing.assert_allclose(moments.covariance(), np.cov(x.numpy(), rowvar=False), rtol=1e-10, atol=1e-12)
    singular = np.linalg.svd((x - x.mean(0)).numpy(), compute_uv=False)
    np.testing.assert_allclose(eigenvalues(moments_of(x).covariance()), singular**2 / 8999, rtol=1e-9)
    expected = np.linalg.norm(x.numpy().mean(0)) ** 2 / (np.linalg.norm(x.numpy(), axis=1) ** 2).mean()
    assert mean_share(moments_of(x)).value == pytest.approx(expected, rel=1e-10)


def test_float32_moments_match_float64_on_word2vec(word2vec):
    moments = moments_of(word2vec)
    exact = np.cov(word2vec.double().numpy(), rowvar=False)
    np.testing.assert_allclose(moments.mean, word2vec.double().numpy().mean(0), atol=1e-8)
    assert (np.abs(moments.covariance().numpy() - exact) <= max_rounding(exact)).all()
    moments = CosineMoments(300)
    moments.update(word2vec[:2000])
    expected = 1 - pdist(word2vec[:2000].double().numpy(), "cosine").mean()
    assert moments.mean_cosine().value == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_float32(x, dtype):
    low = x.to(dtype)
    exact = np.cov(low.double().numpy(), rowvar=False)
    assert (np.abs(moments_of(low).covariance().numpy() - exact) <= max_rounding(exact)).all()


@pytest.mark.measure("anisotropy_raw", "anisotropy_centred")
@pytest.mark.parametrize("centered", [True, False])
def test_anisotropy_matches_singular_values(x, centered):
    singular = np.linalg.svd((x - x.mean(0) if centered else x).numpy(), compute_uv=False)
    moments = moments_of(x)
    S = moments.covariance() if centered else second_moment(moments)
    shares = [score.value for score in anisotropy(eigenvalues(S), 16)]
    np.testing.assert_allclose(shares, singular**2 / (singular**2).sum(), rtol=1e-9)


@pytest.mark.measure("mean_cosine")
def test_mean_cosine_matches_scipy(x):
    moments = CosineMoments(16)
    moments.update(x[:1500])
    assert moments.mean_cosine().value == pytest.approx(1 - pdist(x[:1500].numpy(), "cosine").mean(), abs=1e-12)


@pytest.mark.measure("cosine_histogram")
def test_cosine_histogram_matches_numpy(x):
    histogram = cosine_histogram(x[:1500], bins=37)
    counts, edges = np.histogram(1 - pdist(x[:1500].numpy(), "cosine"), bins=37, range=(-1, 1))
    np.testing.assert_array_equal(histogram.counts, counts)
    np.testing.assert_allclose(histogram.edges, edges, atol=1e-15)


@pytest.mark.measure("activation_profile")
def test_robust_outliers_match_scipy_median_deviation(word2vec):
    profile = activation_profile(moments_of(word2vec))
    for rule, values, sides in (("mean_mad", profile.mean, np.abs), ("std_mad", profile.std, np.asarray)):
        z = 0.6745 * sides(values.numpy() - np.median(values)) / median_abs_deviation(values)
        np.testing.assert_array_equal(profile.outliers[rule], z > 3.5)
