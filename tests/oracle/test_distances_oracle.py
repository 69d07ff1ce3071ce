"""Neighbors, bars and clusters against the libraries that are named in each test.

Conventions: gudhi and ripser end the bars of dimension 0 at distances, not at half of them; they leave out bars of
length 0 and add one that never ends. Ripser computes in float32. In scipy's trees a distance of 0 is no edge.
"""

import gudhi
import numpy as np
import pytest
import torch
from gudhi.representations import Entropy
from gudhi.sklearn.rips_persistence import RipsPersistence
from ripser import ripser
from scipy.cluster.hierarchy import linkage
from scipy.optimize import minimize_scalar
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist, pdist, squareform
from scipy.stats import entropy, skew
from skdim.id import MLE, TwoNN
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import silhouette_score
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from isotropy.catalog import Similarity
from isotropy.cloud import read_cloud
from isotropy.clusters import silhouette, simplified_silhouette
from isotropy.hubness import hubness
from isotropy.intrinsic import levina_bickel, twonn, twonn_mle
from isotropy.isoscore import isoscore
from isotropy.labels import score_by_label
from isotropy.neighbors import distinct_rows, nearest_neighbors
from isotropy.pairs import dissimilarities, measure_pairs
from isotropy.prominence import count_at_min_entropy, prominent_bars
from isotropy.report import measure
from isotropy.rows import Rows
from isotropy.topology import bar_entropy, barcode, persistent_entropy
from isotropy.uniformity import uniformity
from tests.rounding import likely


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


N, D, K = 1500, 24, 11


def scaled_cloud(dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    x = 0.5 + torch.randn(N, D, dtype=torch.float64, generator=generator)
    return (x * torch.randn(N, 1, dtype=torch.float64, generator=generator).exp()).to(dtype)


@pytest.fixture(params=[torch.float64, torch.float32, "word2vec"], ids=str)
def vectors(request):
    if request.param == "word2vec":
        x = request.getfixturevalue("word2vec")[:1500]
        return x[distinct_rows(x)]
    return scaled_cloud(request.param)


def find_by_product(x, k):
    products = x.double().numpy() @ x.double().numpy().T
    np.fill_diagonal(products, -np.inf)
    order = np.argsort(-products, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(products, order, axis=1), order


def test_neighbors_match_sklearn_and_brute_force(vectors):
    theirs = NearestNeighbors(n_neighbors=K, metric="cosine", algorithm="brute").fit(vectors.double().numpy())
    distances, indices = theirs.kneighbors()
    result = measure_pairs(vectors, K, Similarity.COSINE)
    np.testing.assert_array_equal(result.neighbors.indices, indices)
    np.testing.assert_allclose(dissimilarities(result.neighbors, Similarity.COSINE, D), distances, atol=1e-13)
    assert result.uniformity == uniformity(vectors)
    products, indices = find_by_product(vectors, K)
    result = measure_pairs(vectors, K, Similarity.DOT).neighbors
    np.testing.assert_array_equal(result.indices, indices)
    keys = dissimilarities(result, Similarity.DOT, vectors.shape[1])
    np.testing.assert_allclose(-keys, products, rtol=1e-9, atol=1e-12 * np.abs(products).max())
    assert (result.distances.diff(dim=1) >= 0).all()


@pytest.mark.measure("hubness")
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_hubness_matches_scipy_for_similarity(vectors, similarity):
    unit = normalize(vectors.double().numpy())
    x = torch.from_numpy(unit) if similarity == "cosine" else vectors
    counts = np.bincount(find_by_product(x, 10)[1].ravel(), minlength=len(vectors))
    result = measure(read_cloud(Rows(vectors.numpy()), similarity=Similarity(similarity)), ["hubness"])["hubness"]
    assert result.value == pytest.approx(skew(counts), rel=1e-7)
    assert result.detail["similarity"] == similarity
    assert [entry["occurrences"] for entry in result.detail["hubs"]] == sorted(counts, reverse=True)[:10]
    assert all(entry["occurrences"] == counts[entry["row"]] for entry in result.detail["hubs"])


@pytest.mark.measure("twonn", "levina_bickel")
@pytest.mark.parametrize("similarity", Similarity)
def test_intrinsic_dimension_ignores_similarity(vectors, similarity):
    result = measure(read_cloud(Rows(vectors.numpy()), similarity=similarity), ["twonn", "levina_bickel"])
    rows = vectors.double().numpy()
    assert result["twonn"].value == pytest.approx(TwoNN(discard_fraction=0.1).fit(rows).dimension_, rel=1e-5)
    theirs = MLE().fit(rows, n_neighbors=10, comb="mle").dimension_
    assert result["levina_bickel"].value == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_cosine_drops_zero_rows_and_merges_parallel_rows(dtype):
    x = scaled_cloud(dtype)
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
    result = measure_pairs(scaled_cloud()[:n], K, similarity).neighbors
    assert result.indices.tolist() == [[1], [0]][:n] if n == 2 else result.indices.shape == (n, 0)
    undefined = measure(read_cloud(Rows(np.zeros((20, 3))), similarity=similarity), ["hubness", "twonn"])
    assert all(entry.value is None and entry.score.reason for entry in undefined.values())


FLOAT32_ERROR = 2 * likely(300, torch.float32)  # Relative error of a distance, 2e-5


def spread_cloud(n, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    spreads = torch.rand(d, dtype=torch.float64, generator=generator) ** 2 + 0.01
    return 3 + torch.randn(n, d, dtype=torch.float64, generator=generator) * spreads


def groups(width):
    centers = 1000 + torch.eye(3, 40, dtype=torch.float64).repeat_interleave(20, 0)
    outlier_row = torch.full((1, 40), 1002, dtype=torch.float64)
    return torch.cat([centers + width * spread_cloud(60, 40), outlier_row])


def with_duplicates():
    x = spread_cloud(60, 10)
    return torch.cat([x, x[:15], x[:5], torch.zeros(3, 10, dtype=torch.float64)])


def grid():
    return torch.cartesian_prod(*[torch.arange(9, dtype=torch.float64)] * 2)


CLOUDS = {
    "plane": spread_cloud(300, 2),
    "deep": spread_cloud(200, 64),
    "fewer points than dimensions": spread_cloud(100, 300),
    "several blocks": spread_cloud(450, 30),
    "tight groups": groups(1e-6),
    "groups at the precision of products": groups(1.7e-4),
    "duplicates": with_duplicates(),
    "grid": grid(),
    "outlier": torch.cat([spread_cloud(50, 5), torch.full((1, 5), 1e9, dtype=torch.float64)]),
}


@pytest.fixture(params=CLOUDS)
def x(request):
    return CLOUDS[request.param]


def single_linkage(x):
    return linkage(pdist(x.numpy()), "single")[:, 2]


def rips_deaths(x):
    """Lengths of bars by gudhi's Rips complex, without those of length 0 and the one that never ends."""
    tree = gudhi.RipsComplex(points=x.numpy()).create_simplex_tree(max_dimension=1)
    tree.compute_persistence()
    deaths = tree.persistence_intervals_in_dimension(0)[:, 1]
    return np.sort(deaths[np.isfinite(deaths)])


@pytest.mark.measure("barcode")
def test_bars_match_single_linkage(x):
    np.testing.assert_allclose(barcode(x), single_linkage(x), rtol=1e-10)
    lengths = barcode(x)
    if lengths.min() < lengths.max():
        assert prominent_bars(lengths).value == count_by_definition(lengths[lengths > 0].tolist())


def test_bars_match_gudhi_ripser_and_scipy(x):
    deaths = RipsPersistence(homology_dimensions=0).fit_transform([x.numpy()])[0][:, 1]
    lengths = barcode(x)
    np.testing.assert_allclose(lengths[lengths > 0], np.sort(deaths[np.isfinite(deaths)]), rtol=1e-7)
    np.testing.assert_allclose(lengths[lengths > 0], rips_deaths(x), rtol=1e-7)
    deaths = ripser(squareform(pdist(x.numpy())), distance_matrix=True, maxdim=0)["dgms"][0][:, 1]
    np.testing.assert_allclose(lengths[lengths > 0], np.sort(deaths[np.isfinite(deaths)]), rtol=1e-6)
    theirs = minimum_spanning_tree(squareform(1 + pdist(x.numpy()))).data - 1
    assert float(lengths.sum()) == pytest.approx(theirs.sum(), rel=1e-10)


def test_word2vec_bars_match_gudhi_in_both_precisions(word2vec):
    x = word2vec[:500].double()
    np.testing.assert_allclose(barcode(x), single_linkage(x), rtol=1e-10)
    np.testing.assert_allclose(barcode(x), rips_deaths(x), rtol=1e-10)
    np.testing.assert_allclose(barcode(word2vec[:1000]), barcode(word2vec[:1000].double()), rtol=FLOAT32_ERROR)
    lengths = barcode(word2vec[:1000])
    assert len(lengths) == 999
    assert float(lengths[-1]) == pytest.approx(3.65907047, rel=FLOAT32_ERROR)
    assert persistent_entropy(lengths).value == pytest.approx(6.87697640, rel=FLOAT32_ERROR)
    assert prominent_bars(lengths).value == 22
    exact, single = word2vec[:64].double().requires_grad_(), word2vec[:64].clone().requires_grad_()
    bar_entropy(barcode(exact)).backward()
    bar_entropy(barcode(single)).backward()
    torch.testing.assert_close(single.grad.double(), exact.grad, rtol=1e-4, atol=1e-5 * float(exact.grad.abs().max()))


@pytest.mark.measure("persistent_entropy", "persistent_entropy_normalised")
def test_persistent_entropy_matches_gudhi_and_scipy(x):
    lengths = barcode(x)
    diagram = np.stack([np.zeros(len(lengths)), lengths], axis=1)[lengths > 0]
    value = persistent_entropy(lengths).value
    assert value == pytest.approx(float(Entropy(mode="scalar").fit_transform([diagram])[0, 0]), rel=1e-10)
    assert value == pytest.approx(entropy(lengths), rel=1e-10)
    assert persistent_entropy(lengths, normalized=True).value == pytest.approx(value / np.log(len(lengths)))
    assert float(bar_entropy(lengths)) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(("n", "d"), [(8, 3), (5, 9)])
def test_entropy_gradient_matches_finite_differences(n, d):
    points = spread_cloud(n, d).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: bar_entropy(barcode(x)), (points,))
    assert torch.autograd.gradcheck(barcode, (points,))


def count_by_definition(lengths):
    T, *shorter = sorted(lengths, reverse=True)
    r = shorter[-1]
    while True:
        n = len(shorter) + 1
        before = sum(shorter) + T
        for i in range(1, n):
            remaining = [*shorter[i:], T]
            neutral = sum(remaining) / np.exp(entropy(remaining))
            after = sum(remaining) + i * neutral
            if before / after < 1 - 1e-12:
                break
            before = after
        alpha = r / T
        if i == n - 1 or i <= n * alpha * (alpha - 1 - np.log(alpha)) / (alpha - 1) ** 2:
            return i
        shorter = [*shorter[: i - 1], r]


@pytest.mark.measure("prominent_bars")
@pytest.mark.parametrize("seed", range(40))
def test_prominent_bars_match_definition(seed):
    generator = np.random.default_rng(seed)
    m = int(generator.integers(2, 60))
    lengths = generator.lognormal(sigma=generator.uniform(0.05, 3), size=m)
    lengths[: m // 6] += generator.uniform(0, 20)
    assert prominent_bars(torch.from_numpy(lengths)).value == count_by_definition(lengths)


@pytest.mark.parametrize("alpha", [1e-6, 0.001, 0.05, 0.3, 0.7, 0.99])
@pytest.mark.parametrize("n", [2, 3, 10, 101, 500])
def test_count_at_min_entropy_matches_exhaustive_search(n, alpha):
    entropies = [entropy([1.0] * long + [alpha] * (n - long)) for long in range(1, n + 1)]
    Q = count_at_min_entropy(alpha, n)
    assert np.argmin(entropies[:-1]) + 1 in {max(int(np.floor(Q)), 1), int(np.ceil(Q))}


@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.3, 0.7])
def test_count_at_min_entropy_matches_numeric_search(alpha):
    def entropy_with_long(long):
        total = long + alpha * (100 - long)
        return np.log(total) - alpha * np.log(alpha) * (100 - long) / total

    optimum = minimize_scalar(entropy_with_long, bounds=(1e-9, 100), method="bounded", options={"xatol": 1e-9})
    assert count_at_min_entropy(alpha, 100) == pytest.approx(optimum.x, rel=1e-4)


def test_neutral_length_maximizes_entropy():
    remaining = np.array([5.0, 1.0, 0.3, 0.1])

    def negative(length):
        return -entropy([length] * 3 + list(remaining))

    optimum = minimize_scalar(negative, bounds=(0.01, 10), method="bounded")
    assert remaining.sum() / np.exp(entropy(remaining)) == pytest.approx(optimum.x, rel=1e-4)


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


@pytest.mark.measure("isoscore_by_label")
@pytest.mark.parametrize(("dtype", "rel"), [EXACT, SINGLE])
def test_isoscore_by_label_matches_package_per_class(exact_package, clustered, dtype, rel):
    x, labels = clustered[0].to(dtype), clustered[1]
    result = score_by_label(x, labels, isoscore)
    sizes = np.bincount(labels.numpy()).tolist()
    assert [(entry.label, entry.n) for entry in result.classes] == list(enumerate(sizes))
    # Smaller classes have no score: k-means makes one of a single point of word2vec, for which the package gives NaN.
    large = [label for label, size in enumerate(sizes) if size >= 4]
    expected = {label: float(exact_package.IsoScore(x[labels == label].double().numpy())) for label in large}
    values = {entry.label: entry.score.value for entry in result.classes if entry.score.value is not None}
    assert values == pytest.approx(expected, rel=rel)
    assert result.score.value == pytest.approx(np.mean(list(expected.values())), rel=rel)
