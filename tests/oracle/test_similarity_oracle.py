import numpy as np
import pytest
import torch
from scipy.stats import skew
from skdim.id import MLE, TwoNN
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from isotropy.catalog import Similarity
from isotropy.cloud import read_cloud
from isotropy.hubness import hubness
from isotropy.neighbors import distinct_rows
from isotropy.pairs import dissimilarities, measure_pairs
from isotropy.report import measure
from isotropy.rows import Rows
from isotropy.uniformity import uniformity

N, D, K = 1500, 24, 11


def cloud(dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    x = 0.5 + torch.randn(N, D, dtype=torch.float64, generator=generator)
    return (x * torch.randn(N, 1, dtype=torch.float64, generator=generator).exp()).to(dtype)


@pytest.fixture(params=[torch.float64, torch.float32, "word2vec"], ids=str)
def points(request):
    if request.param == "word2vec":
        x = request.getfixturevalue("word2vec")[:1500]
        return x[distinct_rows(x)]
    return cloud(request.param)


def find_by_product(x, k):
    products = x.double().numpy() @ x.double().numpy().T
    np.fill_diagonal(products, -np.inf)
    order = np.argsort(-products, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(products, order, axis=1), order


def test_neighbors_match_sklearn_and_brute_force(points):
    theirs = NearestNeighbors(n_neighbors=K, metric="cosine", algorithm="brute").fit(points.double().numpy())
    distances, indices = theirs.kneighbors()
    result = measure_pairs(points, K, Similarity.COSINE)
    np.testing.assert_array_equal(result.neighbors.indices, indices)
    np.testing.assert_allclose(dissimilarities(result.neighbors, Similarity.COSINE, D), distances, atol=1e-13)
    assert result.uniformity == uniformity(points)
    products, indices = find_by_product(points, K)
    result = measure_pairs(points, K, Similarity.DOT).neighbors
    np.testing.assert_array_equal(result.indices, indices)
    keys = dissimilarities(result, Similarity.DOT, points.shape[1])
    np.testing.assert_allclose(-keys, products, rtol=1e-9, atol=1e-12 * np.abs(products).max())
    assert (result.distances.diff(dim=1) >= 0).all()


@pytest.mark.measure("hubness")
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_hubness_matches_scipy_for_similarity(points, similarity):
    unit = normalize(points.double().numpy())
    x = torch.from_numpy(unit) if similarity == "cosine" else points
    counts = np.bincount(find_by_product(x, 10)[1].ravel(), minlength=len(points))
    result = measure(read_cloud(Rows(points.numpy()), similarity=Similarity(similarity)), ["hubness"])["hubness"]
    assert result.value == pytest.approx(skew(counts), rel=1e-7)
    assert result.detail["similarity"] == similarity
    assert [entry["occurrences"] for entry in result.detail["hubs"]] == sorted(counts, reverse=True)[:10]
    assert all(entry["occurrences"] == counts[entry["row"]] for entry in result.detail["hubs"])


@pytest.mark.measure("twonn", "levina_bickel")
@pytest.mark.parametrize("similarity", Similarity)
def test_intrinsic_dimension_ignores_similarity(points, similarity):
    result = measure(read_cloud(Rows(points.numpy()), similarity=similarity), ["twonn", "levina_bickel"])
    rows = points.double().numpy()
    assert result["twonn"].value == pytest.approx(TwoNN(discard_fraction=0.1).fit(rows).dimension_, rel=1e-5)
    theirs = MLE().fit(rows, n_neighbors=10, comb="mle").dimension_
    assert result["levina_bickel"].value == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_cosine_drops_zero_rows_and_merges_parallel_rows(dtype):
    x = cloud(dtype)
    x = torch.cat([x[:5] * 0, x, 3 * x[:7], x[7:9]])
    result = measure_pairs(x, K, Similarity.COSINE)
    assert (len(result.points), int(result.distinct_rows[0])) == (N + 7, 5)
    near = result.neighbors
    assert (near.distances[:7, 0] == 0).all()
    assert near.indices[:7, 0].tolist() == list(range(N, N + 7))
    assert (near.distances[7:N, 0] > 0).all()
    by_product = measure_pairs(x, K, Similarity.DOT)
    assert len(by_product.points) == N + 8
    assert len(hubness(by_product.neighbors).hubs) == 10


@pytest.mark.parametrize("similarity", [Similarity.COSINE, Similarity.DOT])
@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_rows_have_all_others_as_neighbors(similarity, n):
    result = measure_pairs(cloud()[:n], K, similarity).neighbors
    assert result.indices.tolist() == [[1], [0]][:n] if n == 2 else result.indices.shape == (n, 0)
    undefined = measure(read_cloud(Rows(np.zeros((20, 3))), similarity=similarity), ["hubness", "twonn"])
    assert all(entry.value is None and entry.score.reason for entry in undefined.values())
