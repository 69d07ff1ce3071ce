import numpy as np
import pytest
import scipy.linalg
import torch
from scipy.spatial.distance import pdist
from scipy.special import logsumexp
from scipy.stats import median_abs_deviation, zscore
from sklearn.preprocessing import normalize

from isotropy.activation import activation_profile
from isotropy.anisotropy import second_moment
from isotropy.cosine import CosineMoments
from isotropy.partition import PartitionFunction
from isotropy.uniformity import uniformity
from tests.points import moments_of


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
def points(request):
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
    def test_contributions_match_all_pairs_of_unit_rows(self, points, dtype, rel):
        x = points[:300].to(dtype)
        moments = CosineMoments(x.shape[1])
        moments.update(x)
        rogue, expected = moments.rogue_dimensions(), self.all_pairs(x)
        np.testing.assert_allclose(rogue.contributions, expected, rtol=rel, atol=rel * expected.max())
        assert rogue.score.value == pytest.approx(expected.max(), rel=rel)

    def test_contributions_sum_to_scipy_mean_cosine(self, points):
        moments = CosineMoments(points.shape[1])
        moments.update(points.double())
        total = float(moments.rogue_dimensions().contributions.sum())
        assert total == pytest.approx(1 - pdist(points.double().numpy(), "cosine").mean(), rel=1e-7)


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
    def test_partition_ratio_matches_scipy_logsumexp(self, points, scale, dtype, rel):
        x = (points * scale).to(dtype)
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
    def test_uniformity_matches_code_of_authors(self, points, dtype, rel):
        x = points.to(dtype)
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
    def test_outlier_rules_match_scipy_and_numpy(self, points, dtype):
        x = points.to(dtype)
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
