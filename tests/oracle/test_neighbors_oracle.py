import numpy as np
import pytest
import torch
from scipy.stats import skew
from skdim.id import MLE, TwoNN
from sklearn.neighbors import NearestNeighbors

from isotropy.hubness import hubness
from isotropy.intrinsic import levina_bickel, twonn, twonn_mle
from isotropy.neighbors import distinct_rows, nearest_neighbors


def cloud(n, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    latent = torch.randn(n, 4, dtype=torch.float64, generator=generator)
    mixing = torch.randn(4, d, dtype=torch.float64, generator=generator)
    return 5 + (latent @ mixing).sin() + 0.05 * torch.randn(n, d, dtype=torch.float64, generator=generator)


@pytest.fixture(params=["generated, 40 dimensions", "generated, 8 dimensions", "word2vec"])
def points(request):
    if request.param == "word2vec":
        x = request.getfixturevalue("word2vec")[:2000].double()
        return x[distinct_rows(x)]
    return cloud(1500, 40 if "40" in request.param else 8)


def find_by_ball_tree(x, k):
    return NearestNeighbors(n_neighbors=k, algorithm="ball_tree").fit(x.numpy()).kneighbors()


def test_neighbors_match_ball_tree_in_both_precisions(points):
    ours = nearest_neighbors(points, 12)
    distances, indices = find_by_ball_tree(points, 12)
    np.testing.assert_allclose(ours.distances, distances, rtol=1e-12)
    np.testing.assert_array_equal(ours.indices, indices)
    double, single = (nearest_neighbors(x, 11) for x in (points, points.float()))
    assert twonn(single).dimension.value == pytest.approx(twonn(double).dimension.value, rel=1e-4)
    assert twonn_mle(single).value == pytest.approx(twonn_mle(double).value, rel=1e-4)
    assert levina_bickel(single).value == pytest.approx(levina_bickel(double).value, rel=1e-4)
    assert hubness(single).skewness.value == pytest.approx(hubness(double).skewness.value, rel=1e-4)


@pytest.mark.measure("twonn")
@pytest.mark.parametrize("discard", [0.1, 0.35])
def test_twonn_matches_scikit_dimension(points, discard):
    theirs = TwoNN(discard_fraction=discard).fit(points.numpy())
    ours = twonn(nearest_neighbors(points, 2), discard)
    assert ours.dimension.value == pytest.approx(theirs.dimension_, rel=1e-7)
    ranks = torch.linspace(0, len(theirs.x_) - 1, len(ours.log_mu), dtype=torch.float64).round().long()
    np.testing.assert_allclose(ours.log_mu, theirs.x_[ranks, 0], rtol=1e-6)
    np.testing.assert_allclose(ours.minus_log_survival, theirs.y_[ranks, 0], rtol=1e-12)


@pytest.mark.measure("twonn_mle")
@pytest.mark.filterwarnings("ignore:divide by zero")  # scikit-dimension also takes logarithms that it does not use
def test_twonn_likelihood_matches_scikit_dimension(points):
    theirs = TwoNN(discard_fraction=0, method="mle").fit(points.numpy()).dimension_
    assert twonn_mle(nearest_neighbors(points, 2)).value == pytest.approx(theirs, rel=1e-7)


@pytest.mark.measure("levina_bickel")
@pytest.mark.parametrize("k", [10, 20])
def test_levina_bickel_matches_scikit_dimension(points, k):
    theirs = MLE().fit(points.numpy(), n_neighbors=k, comb="mle").dimension_
    assert levina_bickel(nearest_neighbors(points, 20), k).value == pytest.approx(theirs, rel=1e-7)


@pytest.mark.measure("hubness")
def test_hubness_matches_scipy_and_sklearn(points):
    _, indices = find_by_ball_tree(points, 10)
    counts = np.bincount(indices.ravel(), minlength=len(points))
    ours = hubness(nearest_neighbors(points, 11))
    assert ours.skewness.value == pytest.approx(skew(counts), rel=1e-7)
    assert ours.antihubs.value == np.mean(counts == 0)
    assert ours.greatest.value == counts.max()


def test_twonn_drops_duplicates_like_scikit_dimension():
    # In more than 25 dimensions scikit-dimension's distances of duplicates are not exactly 0.
    x = cloud(600, 8)
    x[500:] = x[:100]
    with pytest.warns(UserWarning, match="Dropping 200 points"):
        theirs = TwoNN().fit(x.numpy()).dimension_
    assert twonn(nearest_neighbors(x, 2)).dimension.value == pytest.approx(theirs, rel=1e-7)
