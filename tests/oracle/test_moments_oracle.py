import numpy as np
import pytest
import scipy.linalg
import torch
from scipy.spatial.distance import pdist
from scipy.special import logsumexp
from scipy.stats import entropy, median_abs_deviation, zscore
from sklearn.preprocessing import normalize

from isotropy.activation import activation_profile
from isotropy.anisotropy import anisotropy, mean_share, second_moment
from isotropy.cosine import CosineMoments, cosine_histogram
from isotropy.partition import PartitionFunction
from isotropy.rank import alpha_req, effective_rank, explained_variance, rankme, stable_rank
from isotropy.spectrum import CHUNK_ROWS, eigenvalues
from isotropy.uniformity import uniformity
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
    moments = moments_of(word2vec[:2000], CosineMoments)
    expected = 1 - pdist(word2vec[:2000].double().numpy(), "cosine").mean()
    assert moments.mean_cosine().value == pytest.approx(expected, abs=1e-8)
    moments.update(word2vec[2000:])
    assert moments.mean_cosine().value == pytest.approx(0.0640, abs=1e-4)


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
    expected = 1 - pdist(x[:1500].numpy(), "cosine").mean()
    assert moments_of(x[:1500], CosineMoments).mean_cosine().value == pytest.approx(expected, abs=1e-12)


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


def spectra(points):
    moments = moments_of(points)
    centered = eigenvalues(moments.covariance(), moments.n - 1)
    return centered, eigenvalues(second_moment(moments), moments.n)


def singular_values(points, *, centered):
    points = points.double().numpy()
    return np.linalg.svd(points - points.mean(0) if centered else points, compute_uv=False)


def unchanged(points):
    return points


def in_subspace(points):
    columns = points[:, :12]
    generator = torch.Generator().manual_seed(1)
    return columns @ torch.randn(columns.shape[1], points.shape[1], dtype=torch.float64, generator=generator)


def with_few_distinct_rows(points):
    return points[torch.arange(len(points)) % 9]


def off_origin(points):
    return points + 50


@pytest.fixture(params=[(500, 40), (40, 500), (41, 40), (40, 41), (3, 7)], ids=str)
def shape(request):
    return request.param


@pytest.fixture(params=[unchanged, in_subspace, with_few_distinct_rows, off_origin])
def points(request, shape):
    n, d = shape
    generator = torch.Generator().manual_seed(n + d)
    spreads = torch.arange(1, d + 1, dtype=torch.float64) ** -0.7
    return request.param(1 + torch.randn(n, d, dtype=torch.float64, generator=generator) * spreads)


@pytest.fixture(params=[60, 299, 300, 3000])
def words(request, word2vec):
    return word2vec[: request.param]


def check(points, tolerance):
    centered, raw = spectra(points)
    sigma, weights = singular_values(points, centered=True), singular_values(points, centered=False)
    sigma[sigma < 1e-13 * sigma[0] * len(points)] = 0  # rounding, where the rank is less than full
    weights = weights / weights.sum() + 1e-7
    effective = [effective_rank(centered, weights_of) for weights_of in ("sigma", "lambda")]
    scores = [*effective, rankme(raw, len(points)), stable_rank(centered)]
    values = [score.value for score in (*scores, *explained_variance(centered, len(sigma)))]
    expected = [np.exp(entropy(sigma)), np.exp(entropy(sigma**2)), np.exp(-(weights * np.log(weights)).sum())]
    expected += [(np.linalg.norm(sigma) / sigma[0]) ** 2, *(sigma**2).cumsum() / (sigma**2).sum()]
    np.testing.assert_allclose(values, expected, rtol=tolerance)


@pytest.mark.measure("effective_rank", "effective_rank_lambda", "rankme", "stable_rank", "explained_variance")
def test_ranks_match_singular_values_on_generated_clouds(points):
    check(points, 1e-7)


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
    points = word2vec[:60].double()
    expected = slope(singular_values(points, centered=True)[:59], 4, 100)
    assert alpha_req(spectra(points)[0]).value == pytest.approx(expected, rel=1e-7)
    # Points +-i^(-a/2) along orthonormal directions have the eigenvalues i^-a.
    arms = torch.diag(torch.arange(1, 131, dtype=torch.float64) ** -0.6)
    assert alpha_req(spectra(torch.cat([arms, -arms]))[0]).value == pytest.approx(1.2, rel=1e-9)


def cloud(n, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(d, d, dtype=torch.float64, generator=generator) / d**0.5
    return 0.2 + torch.randn(n, d, dtype=torch.float64, generator=generator) @ mixing


def planted():
    x = cloud(1200, 64)
    x -= x.mean(0)
    x[:, 20] *= 6
    x[:, 40] *= 2
    x += torch.linspace(-0.1, 0.1, 64)
    x[:, 5] += 4
    x[:, 9] -= 2
    return x


CLOUDS = {
    "planted outliers": planted,
    "many points": lambda: cloud(1200, 24),
    "unequal dimensions": lambda: cloud(500, 24) * torch.linspace(0.1, 5, 24),
    "fewer points than dimensions": lambda: cloud(12, 24),
    "two dimensions": lambda: cloud(1200, 2),
}


@pytest.fixture(params=["word2vec", *CLOUDS])
def vectors(request):
    if request.param == "word2vec":
        return request.getfixturevalue("word2vec")[:1200]
    return CLOUDS[request.param]()


EACH_DTYPE = pytest.mark.parametrize(("dtype", "rel"), [(torch.float64, 1e-7), (torch.float32, 1e-4)])


class TestRogueDimensions:
    """Timkey & van Schijndel 2021: the mean over pairs a != b of u_ai u_bi."""

    @staticmethod
    def all_pairs(x):
        units = normalize(x.double().numpy())
        first, second = np.triu_indices(len(units), 1)
        return np.array([(column[first] * column[second]).mean() for column in units.T])

    @pytest.mark.measure("rogue_dimensions")
    @EACH_DTYPE
    def test_contributions_match_all_pairs_of_unit_rows(self, vectors, dtype, rel):
        x = vectors[:300].to(dtype)
        rogue, expected = moments_of(x, CosineMoments).rogue_dimensions(), self.all_pairs(x)
        np.testing.assert_allclose(rogue.contributions, expected, rtol=rel, atol=rel * expected.max())
        assert rogue.score.value == pytest.approx(expected.max(), rel=rel)

    def test_contributions_sum_to_scipy_mean_cosine(self, vectors):
        total = float(moments_of(vectors.double(), CosineMoments).rogue_dimensions().contributions.sum())
        assert total == pytest.approx(1 - pdist(vectors.double().numpy(), "cosine").mean(), rel=1e-7)


class TestPartition:
    """Mu & Viswanath 2018: Z(c) summed over all points, c the eigenvectors of X^T X and their opposites."""

    @staticmethod
    def log_z(x):
        x = x.double().numpy()
        _, eigenvectors = scipy.linalg.eigh(x.T @ x)
        return np.array([[logsumexp(x @ (sign * c)) for c in eigenvectors.T] for sign in (1, -1)])

    @staticmethod
    def partition_function(x):
        partition = PartitionFunction(torch.linalg.eigh(second_moment(moments_of(x))).eigenvectors)
        partition.update(x)
        return partition

    @pytest.mark.measure("partition", "partition_log")
    @EACH_DTYPE
    @pytest.mark.parametrize("scale", [0.1, 1, 10])
    def test_partition_ratio_matches_scipy_logsumexp(self, vectors, scale, dtype, rel):
        x = (vectors * scale).to(dtype)
        log_z, isotropy_ratio = self.log_z(x), self.partition_function(x)
        ratio = log_z.min() - log_z.max()
        assert isotropy_ratio.log_isotropy().value == pytest.approx(ratio, rel=rel)
        assert isotropy_ratio.isotropy().value == pytest.approx(np.exp(ratio), rel=rel)

    def test_eigenvectors_are_columns_unlike_in_first_isoscore_code(self):
        # The first code's partition_score takes rows of the eigenvector matrix and multiplies elementwise.
        x = cloud(500, 24)
        _, eigenvectors = torch.linalg.eigh(x.T @ x)
        by_columns, by_rows = PartitionFunction(eigenvectors), PartitionFunction(eigenvectors.T)
        by_columns.update(x)
        by_rows.update(x)
        log_z = self.log_z(x)
        assert by_columns.log_isotropy().value == pytest.approx(log_z.min() - log_z.max(), rel=1e-7)
        assert abs(by_rows.log_isotropy().value - by_columns.log_isotropy().value) > 0.1


class TestUniformity:
    """Wang & Isola 2020: torch.pdist(u).pow(2).mul(-2).exp().mean().log(), which is the authors' code."""

    @pytest.mark.measure("uniformity")
    @EACH_DTYPE
    def test_uniformity_matches_code_of_authors(self, vectors, dtype, rel):
        x = vectors.to(dtype)
        units = torch.nn.functional.normalize(x.double())
        expected = float(torch.pdist(units).pow(2).mul(-2).exp().mean().log())
        assert uniformity(x).value == pytest.approx(expected, rel=rel)

    @EACH_DTYPE
    @pytest.mark.parametrize("width", [1, 1e-2, 1e-4])
    def test_uniformity_of_narrow_cone_keeps_digits(self, width, dtype, rel):
        x = (1 + width * cloud(1500, 24)).to(dtype)
        squares = pdist(normalize(x.double().numpy()), "sqeuclidean")
        assert uniformity(x).value == pytest.approx(np.log1p(np.expm1(-2 * squares).mean()), rel=rel)


class TestOutlierDimensions:
    """Each rule by scipy and numpy."""

    @staticmethod
    def flags(x):
        mean, std = x.mean(0), x.std(0, ddof=1)

        def robust(values):
            return 0.6745 * (values - np.median(values)) / median_abs_deviation(values)

        return {
            "mean_3sd": np.abs(zscore(mean)) > 3,
            "std_3sd": zscore(std) > 3,
            "variance_5x": x.var(0, ddof=1) >= 5 * x.var(0, ddof=1).mean(),
            "mean_mad": np.abs(robust(mean)) > 3.5,
            "std_mad": robust(std) > 3.5,
        }

    @pytest.mark.measure("activation_profile")
    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
    def test_outlier_rules_match_scipy_and_numpy(self, vectors, dtype):
        x = vectors.to(dtype)
        profile, expected = activation_profile(moments_of(x)), self.flags(x.double().numpy())
        assert list(profile.outliers) == list(expected)
        for rule, flags in expected.items():
            np.testing.assert_array_equal(profile.outliers[rule], flags)
        assert profile.score.value == np.any(list(expected.values()), axis=0).sum()

    def test_outlier_rules_find_planted_outliers(self):
        expected = {"mean_3sd": [5, 9], "std_3sd": [20], "variance_5x": [20], "mean_mad": [5, 9], "std_mad": [20, 40]}
        x = planted()
        for flags in (self.flags(x.numpy()), activation_profile(moments_of(x)).outliers):
            assert {rule: np.flatnonzero(flagged).tolist() for rule, flagged in flags.items()} == expected
