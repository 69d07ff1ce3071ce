import IsoScore.IsoScore
import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import silhouette_score

from isotropy.clusters import silhouette, simplified_silhouette
from isotropy.isoscore import isoscore
from isotropy.labels import score_by_label

EXACT = (torch.float64, 1e-7)
SINGLE = (torch.float32, 1e-4)


@pytest.fixture(scope="module", params=["word2vec", "generated"])
def clustered(request):
    x = request.getfixturevalue("word2vec")[:2000] if request.param == "word2vec" else blobs(900, 5, 20, 4.0)[0]
    return x, torch.from_numpy(KMeans(12, n_init=1, random_state=0).fit_predict(x.double().numpy()))


def blobs(n, k, d, spread=1.0):
    x, labels = make_blobs(n, d, centers=k, cluster_std=spread, random_state=0)
    return torch.from_numpy(x), torch.from_numpy(labels)


def sklearn_silhouette(x, labels):
    """The mean silhouette from scipy's distances, since scikit-learn's lose digits."""
    return silhouette_score(squareform(pdist(x.double().numpy())), labels.numpy(), metric="precomputed")


def centroid_silhouette(x, labels):
    x, labels = x.double().numpy(), labels.numpy()
    classes = np.unique(labels)
    distances = cdist(x, np.stack([x[labels == label].mean(0) for label in classes]))
    members = labels[:, None] == classes
    a, b = distances[members], np.where(members, np.inf, distances).min(1)
    return ((b - a) / np.maximum(a, b)).mean()


def assert_scores_match(x, labels, rel):
    assert silhouette(x, labels).value == pytest.approx(sklearn_silhouette(x, labels), rel=rel)
    assert simplified_silhouette(x, labels).value == pytest.approx(centroid_silhouette(x, labels), rel=rel)


@pytest.mark.measure("silhouette", "simplified_silhouette")
@pytest.mark.parametrize(("dtype", "rel"), [EXACT, SINGLE])
def test_silhouettes_after_k_means_match_sklearn_and_scipy(clustered, dtype, rel):
    x, labels = clustered[0].to(dtype), clustered[1]
    assert_scores_match(x, labels, rel)


@pytest.mark.parametrize(("dtype", "rel"), [EXACT, SINGLE])
@pytest.mark.parametrize(
    ("n", "k", "d", "spread"),
    [(1500, 2, 5, 1.0), (1500, 7, 60, 8.0), (1200, 400, 10, 2.0), (40, 3, 100, 1.0), (1400, 2, 1, 20.0)],
)
def test_silhouettes_of_blobs_match_sklearn_and_scipy(n, k, d, spread, dtype, rel):
    x, labels = blobs(n, k, d, spread)
    x = x.to(dtype)
    assert_scores_match(x, labels, rel)


def test_silhouette_matches_sklearn_distances(clustered):
    x, labels = clustered
    assert silhouette(x, labels).value == pytest.approx(silhouette_score(x.double().numpy(), labels.numpy()), rel=1e-7)


@pytest.mark.parametrize(("dtype", "rel"), [EXACT, SINGLE])
def test_silhouettes_are_exact_with_distant_third_class(dtype, rel):
    x, labels = blobs(600, 3, 20)
    x = (0.01 * (x - x[labels == 0].mean(0)) * (labels != 2)[:, None] + 30.0 * (labels == 2)[:, None]).to(dtype)
    assert_scores_match(x, labels, rel)


@pytest.mark.parametrize("far", [1e6, 1e9, 1e12])
def test_silhouettes_are_exact_with_distant_row(far):
    x, labels = blobs(600, 3, 20, 3.0)
    x[17] = far
    assert_scores_match(x, labels, 1e-7)


@pytest.mark.parametrize("majority", range(3))
def test_silhouettes_are_exact_for_tight_distant_classes(majority):
    x, _ = blobs(700, 1, 20)
    labels = torch.cat([torch.arange(600) % 3, torch.full((100,), majority)])
    x = 1e-3 * (x - x.mean(0)) + torch.tensor([0, 1e-2, 1e6]).double()[labels, None]
    assert_scores_match(x, labels, 1e-7)


@pytest.mark.parametrize(("dtype", "rel"), [EXACT, SINGLE])
def test_silhouettes_of_duplicates_and_singletons_match_sklearn(dtype, rel):
    x, labels = blobs(300, 4, 12, 3.0)
    x = torch.cat([x, x[:150], x[:3] + 1]).to(dtype)
    labels = torch.cat([labels, labels[:100], labels[100:150] + 1, torch.tensor([90, 91, 92])])
    assert_scores_match(x, labels, rel)


@pytest.fixture
def float64_by_default():
    """The package takes square roots in the default dtype; float64 avoids an error of 6e-8."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.measure("isoscore_by_label")
@pytest.mark.parametrize(("dtype", "rel"), [EXACT, SINGLE])
@pytest.mark.usefixtures("float64_by_default")
def test_isoscore_by_label_matches_package_per_class(clustered, dtype, rel):
    x, labels = clustered[0].to(dtype), clustered[1]
    result = score_by_label(x, labels, isoscore)
    sizes = np.bincount(labels.numpy()).tolist()
    assert [(entry.label, entry.n) for entry in result.classes] == list(enumerate(sizes))
    # Smaller classes have no score: k-means makes one of a single point of word2vec, for which the package gives NaN.
    package = IsoScore.IsoScore.IsoScore
    large = [label for label, size in enumerate(sizes) if size >= 4]
    expected = {label: float(package(x[labels == label].double().numpy())) for label in large}
    values = {entry.label: entry.score.value for entry in result.classes if entry.score.value is not None}
    assert values == pytest.approx(expected, rel=rel)
    assert result.score.value == pytest.approx(np.mean(list(expected.values())), rel=rel)
