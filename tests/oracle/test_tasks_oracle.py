from itertools import pairwise

import faiss
import numpy as np
import pytest
import pytrec_eval
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import beta, binomtest, skew, spearmanr, ttest_1samp
from sklearn.isotonic import IsotonicRegression
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from isotropy.catalog import Similarity
from isotropy.catalog.calibration import PromiseKind
from isotropy.tasks.bootstrap import intervals, mean, spearman_with
from isotropy.tasks.cutoffs import allowed_errors, count_share, fewest_labels, find_cutoff, match_curve
from isotropy.tasks.parts import groups_of
from isotropy.tasks.search import count_retrievals, nearest, prepare, rank_ties
from isotropy.tasks.storage import PQ_ITERATIONS, StoredSpace, VectorStorage, bytes_of, pq_bytes
from isotropy.tasks.truth import DEPTH, LabelTruth, PairTruth, ranking_metric

N, M, D = 700, 120, 24


@pytest.fixture
def random():
    return np.random.default_rng(20_261_123)


@pytest.fixture
def x(random):
    return (random.normal(size=(N, D)) * np.linspace(2, 0.3, D) + 0.4).astype(np.float32)


@pytest.fixture
def queries(random, x):
    return x[random.integers(0, N, M)] + random.normal(size=(M, D)).astype(np.float32)


IDS = [f"doc-{row}" for row in range(N)]  # doc-10 sorts before doc-9, as in trec_eval


@pytest.mark.parametrize("similarity", Similarity)
def test_exact_search_matches_flat_index(similarity, x, queries):
    q, rows = prepare(queries, similarity), prepare(x, similarity)
    index = faiss.IndexFlatL2(D) if similarity is Similarity.EUCLIDEAN else faiss.IndexFlatIP(D)
    index.add(rows)
    _, expected = index.search(q, DEPTH)
    np.testing.assert_array_equal(nearest(q, rows, DEPTH, similarity, rank_ties(IDS)), expected)


@pytest.mark.parametrize("metric", ["ndcg@10", "recall@10", "mrr@10"])
@pytest.mark.parametrize("ties", [False, True])
def test_ranking_metrics_match_trec_eval(metric, ties, random, x, queries):
    if ties:  # whole numbers: products are exact, and many are equal
        x, queries = x[: N // 2].round().repeat(2, axis=0), queries.round()
    similarity = Similarity.DOT
    relevant = [
        {int(row): int(grade) for row, grade in zip(random.permutation(N)[:20], random.integers(1, 4, 20), strict=True)}
        for _ in range(M)
    ]
    neighbors = nearest(queries, x, DEPTH, similarity, rank_ties(IDS))
    judged = {str(query): {IDS[row]: grade for row, grade in rows.items()} for query, rows in enumerate(relevant)}
    scores = (queries.astype(np.float64) @ x.astype(np.float64).T).astype(np.float32)
    run = {str(query): dict(zip(IDS, row, strict=True)) for query, row in enumerate(scores.tolist())}
    trec_scores = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10", "recall.10", "recip_rank"}).evaluate(run)
    name = {"ndcg@10": "ndcg_cut_10", "recall@10": "recall_10", "mrr@10": "recip_rank"}[metric]
    expected = np.array([trec_scores[str(query)][name] for query in range(M)])
    if metric == "mrr@10":
        expected[expected < 1 / DEPTH] = 0
    assert 0 < expected.mean() < 1
    np.testing.assert_allclose(ranking_metric(relevant, neighbors, metric), expected, rtol=0, atol=1e-9)


def test_ties_beyond_first_search_are_ranked(x):
    rows = np.repeat(x[:1], 500, axis=0)
    rows[::7] *= 2  # the same direction
    for storage in (VectorStorage.FLOAT32, VectorStorage.BINARY):
        space = StoredSpace(prepare(rows, Similarity.COSINE), storage, Similarity.COSINE)
        neighbors = space.nearest(prepare(x[:1], Similarity.COSINE), 3, rank_ties(IDS[:500]))
        assert [IDS[row] for row in neighbors[0]] == ["doc-99", "doc-98", "doc-97"]


@pytest.mark.parametrize("similarity", [Similarity.DOT, Similarity.EUCLIDEAN])
def test_scalar_and_product_quantizers_match_faiss(similarity, x, queries):
    metric = faiss.METRIC_L2 if similarity is Similarity.EUCLIDEAN else faiss.METRIC_INNER_PRODUCT
    pq = faiss.IndexPQ(D, pq_bytes(D), 8, metric)
    pq.pq.cp.seed, pq.pq.cp.min_points_per_centroid, pq.pq.cp.niter = 1, 1, PQ_ITERATIONS
    for storage, index in {
        VectorStorage.INT8: faiss.IndexScalarQuantizer(D, faiss.ScalarQuantizer.QT_8bit, metric),
        VectorStorage.INT4: faiss.IndexScalarQuantizer(D, faiss.ScalarQuantizer.QT_4bit, metric),
        VectorStorage.PQ: pq,
    }.items():
        index.train(x)
        index.add(x)
        distances, _ = index.search(queries, DEPTH)
        space = StoredSpace(x, storage, similarity)
        neighbors = space.decoded_rows[space.nearest(queries, DEPTH, rank_ties(IDS))].astype(np.float64)
        q = queries.astype(np.float64)[:, None]
        neighbor_distances = (
            ((neighbors - q) ** 2).sum(2) if similarity is Similarity.EUCLIDEAN else (neighbors * q).sum(2)
        )
        np.testing.assert_allclose(neighbor_distances, distances, rtol=1e-4, atol=1e-4)
        assert index.sa_code_size() == bytes_of(storage, D)


@pytest.mark.parametrize("similarity", Similarity)
@pytest.mark.parametrize("is_real", [False, True])
@pytest.mark.parametrize(("storage", "name"), [(VectorStorage.INT4, "SQ4"), (VectorStorage.RABITQ, "RR,RaBitQ")])
def test_hits_match_faiss_index(similarity, is_real, storage, name, x, queries, request):
    if is_real:
        x = request.getfixturevalue("word2vec").numpy()
        x, queries = x[M : M + N], x[:M]
    x, queries = prepare(x, similarity), prepare(queries, similarity)
    metric = faiss.METRIC_L2 if similarity is Similarity.EUCLIDEAN else faiss.METRIC_INNER_PRODUCT
    index = faiss.index_factory(x.shape[1], name, metric)
    if storage is VectorStorage.RABITQ:
        faiss.downcast_index(index.index).qb = 0  # queries in float32
    index.train(x)
    index.add(x)
    assert index.sa_code_size() == bytes_of(storage, x.shape[1])
    distances, expected = index.search(queries, DEPTH + 1)
    neighbors = StoredSpace(x, storage, similarity).nearest(queries, DEPTH, rank_ties(IDS))
    # The tenth and eleventh may change places by rounding.
    is_sure = np.abs(np.diff(distances[:, -2:])[:, 0]) > 1e-4 * np.abs(distances).max()
    assert is_sure.mean() > 0.95
    np.testing.assert_array_equal(np.sort(neighbors)[is_sure], np.sort(expected[:, :DEPTH])[is_sure])


def rotate(x, queries):
    """Return both about the mean of x, after the random rotation of faiss's index LSH."""
    rotation = faiss.RandomRotationMatrix(x.shape[1], x.shape[1])
    rotation.init(5)
    matrix = faiss.vector_to_array(rotation.A).reshape(x.shape[1], -1).astype(np.float64)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(len(matrix)), atol=1e-5)
    return ((points - x.mean(0, dtype=np.float64)) @ matrix.T for points in (x, queries))


@pytest.mark.parametrize("is_real", [False, True])
def test_binary_search_matches_faiss(is_real, x, queries, request):
    if is_real:
        x = request.getfixturevalue("word2vec").numpy()
        x, queries = x[M : M + N], x[:M]
    d = x.shape[1]
    lsh = faiss.IndexLSH(d, d, True, False)
    index = faiss.IndexPreTransform(faiss.CenteringTransform(d), lsh)
    index.train(x)
    index.add(x)
    distances, _ = index.search(queries, DEPTH)
    space = StoredSpace(x, VectorStorage.BINARY, Similarity.DOT)
    neighbors = space.nearest(queries, DEPTH, rank_ties(IDS))
    rotated, rotated_queries = rotate(x, queries)
    np.testing.assert_array_equal(((rotated[neighbors] > 0) != (rotated_queries > 0)[:, None]).sum(2), distances)
    np.testing.assert_array_equal(space.decoded_rows > 0, rotated > 0)
    assert bytes_of(VectorStorage.BINARY, d) == index.sa_code_size()
    assert bytes_of(VectorStorage.BINARY, 12) == 2


@pytest.mark.parametrize("mean", [0, 1])
def test_mean_and_rotation_find_more_than_signs(mean, random):
    x = (random.normal(size=(2000, 64)) / np.arange(1, 65) ** 0.5 + mean).astype(np.float32)
    queries, rows = x[:M], x[M:]
    ranks = rank_ties([str(row) for row in range(len(rows))])
    signs = faiss.IndexBinaryFlat(64)
    signs.add(np.packbits(rows > 0, axis=1))
    _, by_sign = signs.search(np.packbits(queries > 0, axis=1), DEPTH)
    exact, by_bits = (
        StoredSpace(rows, storage, Similarity.EUCLIDEAN).nearest(queries, DEPTH, ranks)
        for storage in (VectorStorage.FLOAT32, VectorStorage.BINARY)
    )
    recall, sign_recall = ((exact[:, :, None] == rows[:, None]).any(2).mean() for rows in (by_bits, by_sign))
    assert recall > sign_recall + 0.1


def test_rescoring_ranks_nearest_40_codes_by_float32(x, queries):
    rotated, rotated_queries = rotate(x, queries)
    bit_distances = ((rotated > 0)[None] != (rotated_queries > 0)[:, None]).sum(2)
    neighbors = StoredSpace(x, VectorStorage.RESCORED, Similarity.DOT).nearest(queries, DEPTH, rank_ties(IDS))
    for query, rows in enumerate(neighbors):
        fortieth = np.sort(bit_distances[query])[39]
        assert (bit_distances[query, rows] <= fortieth).all()
        products = x.astype(np.float64) @ queries[query].astype(np.float64)
        sure = products[bit_distances[query] < fortieth]
        assert (np.diff(products[rows]) <= 0).all()
        assert products[rows[0]] >= sure.max(initial=-np.inf)


def test_similarities_of_pairs(random, x):
    pairs = random.integers(0, N, (50, 2))
    first, second = x[pairs[:, 0]].astype(np.float64), x[pairs[:, 1]].astype(np.float64)
    cosines = (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    expected = {"cosine": cosines, "dot": (first * second).sum(1), "euclidean": -((first - second) ** 2).sum(1)}
    for similarity in Similarity:
        space = StoredSpace(prepare(x, similarity), VectorStorage.FLOAT32, similarity)
        np.testing.assert_allclose(space.similarities(pairs), expected[similarity], rtol=1e-5, atol=1e-5)


def test_weighted_rank_correlations_match_repeated_pairs(random):
    scores, values = random.integers(0, 6, 80).astype(float), random.normal(size=(3, 80)).round(1)
    times = random.integers(0, 4, (5, 80))
    correlations = spearman_with(scores)(values, times.astype(float))
    for row, weights in enumerate(times):
        repeated = np.repeat(np.arange(80), weights)
        expected = [spearmanr(value[repeated], scores[repeated]).statistic for value in values]
        np.testing.assert_allclose(correlations[row], expected, atol=1e-12)
    assert spearman_with(scores)(np.ones((1, 80)), np.ones((1, 80))).tolist() == [[0.0]]


def test_bootstrap_of_mean_has_width_of_students_t(random):
    groups = np.repeat(np.arange(60), 4)
    values = (random.normal(size=60)[groups] + random.normal(size=240))[None]
    group_means = values.reshape(60, 4).mean(1)
    (interval,) = intervals(values, groups, mean, seed=0)
    expected = 2 * 2.001 * group_means.std(ddof=1) / 60**0.5
    assert interval.value == pytest.approx(values.mean())
    assert interval.high - interval.low == pytest.approx(expected, rel=0.08)
    assert (interval.difference, interval.difference_low, interval.difference_high) == (0, 0, 0)


@pytest.mark.parametrize("changes", [(0.4, 0.5, 0.2, 1.0), (-0.1, -0.2, -0.5, -0.5)])
def test_interval_of_few_changed_queries_covers_students_t(random, changes):
    baseline = random.random(40)
    change = np.zeros(40)
    change[: len(changes)] = changes
    interval = intervals(np.stack([baseline, baseline + change]), np.arange(40), mean, seed=0)[1]
    low, high = ttest_1samp(change, 0).confidence_interval()
    assert interval.difference_low <= low + 1e-12
    assert interval.difference_high >= high - 1e-12
    assert interval.difference_low < 0 < interval.difference_high


def test_interval_of_equal_scores_matches_clopper_pearson():
    values = np.stack([np.ones(200), np.ones(200), np.zeros(200)])
    baseline, same, worse = intervals(values, np.arange(200), mean, seed=0)
    low = binomtest(200, 200).proportion_ci(method="exact").low
    assert (baseline.low, baseline.high) == (pytest.approx(low), 1)
    assert (worse.low, worse.high) == (0, pytest.approx(1 - low))
    assert (baseline.difference_low, baseline.difference_high) == (0, 0)
    assert (same.difference_low, same.difference_high) == (pytest.approx(low - 1), pytest.approx(1 - low))
    assert (worse.difference_low, worse.difference_high) == (-1, pytest.approx(-low))


def test_query_hubness_is_skewness_of_retrieval_counts(random):
    rows, queries = random.normal(size=(80, 6)).astype(np.float32), random.normal(size=(50, 6)).astype(np.float32)
    rows[7] = queries.mean(0) * 0.1
    ids = [f"d{row}" for row in range(80)]
    neighbors = nearest(queries, rows, DEPTH, Similarity.EUCLIDEAN, rank_ties(ids))
    counts = NearestNeighbors(n_neighbors=DEPTH).fit(rows).kneighbors_graph(queries).sum(0).A1
    hubness = count_retrievals(neighbors, ids)
    assert (hubness.k, hubness.queries) == (DEPTH, 50)
    assert hubness.skewness == pytest.approx(skew(counts))
    assert hubness.never == pytest.approx((counts == 0).mean())
    assert (hubness.hubs[0].id, [hub.queries for hub in hubness.hubs]) == ("d7", sorted(counts, reverse=True)[:10])
    assert count_retrievals(np.arange(80)[:, None], ids).skewness is None


def test_groups_are_connected_components(random):
    keys = [set(random.integers(0, 150, random.integers(0, 4)).tolist()) for _ in range(100)]
    rows, columns = zip(*((unit, 100 + key) for unit, unit_keys in enumerate(keys) for key in unit_keys), strict=True)
    graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(250, 250))
    expected = connected_components(graph, directed=False)[1][:100]
    components = groups_of(keys)
    couples = set(zip(components.tolist(), expected.tolist(), strict=True))
    assert len(couples) == len(set(expected)) == components.max() + 1
    truth = PairTruth(np.array([[0, 1], [2, 3], [1, 4], [5, 5]]), np.arange(4.0))
    codes = truth.group_codes(np.eye(6)).tolist()
    assert len(set(codes)) == 3
    assert codes[0] == codes[2]


def test_neighbor_votes_match_sklearn(random, x):
    codes = (x[:, 0] > 0.4).astype(np.int64) + (x[:, 1] > 0.4)
    parts = random.integers(0, 3, N)
    truth = LabelTruth(np.arange(N), codes, IDS)
    space = StoredSpace(x, VectorStorage.FLOAT32, Similarity.EUCLIDEAN)
    neighbors = truth.neighbors(space, None, parts)
    fit = parts == 0
    votes = KNeighborsClassifier(DEPTH).fit(x[fit], codes[fit]).predict_proba(x[~fit])
    winners = votes == votes.max(1, keepdims=True)
    clear = winners.sum(1) == 1
    right = truth.values(space, neighbors, "knn_accuracy", parts)
    assert clear.mean() > 0.8
    np.testing.assert_array_equal(right[clear], (votes.argmax(1) == codes[~fit])[clear])
    tied = (~clear).nonzero()[0]
    nearest_of_tied = [next(code for code in codes[neighbors[row]] if winners[row, code]) for row in tied]
    np.testing.assert_array_equal(right[tied], np.array(nearest_of_tied) == codes[~fit][tied])


@pytest.mark.parametrize(("promise", "labels"), [(0.01, 299), (0.05, 59), (0.1, 29)])
def test_promise_takes_as_many_labels_as_wilks_says(promise, labels):
    assert fewest_labels(promise) == labels
    assert (allowed_errors(labels - 1, promise), allowed_errors(labels, promise)) == (-1, 0)


@pytest.mark.parametrize("promise", [0.01, 0.05, 0.1])
def test_allowed_errors_keep_upper_bound_below_promise(promise):
    for n in (29, 59, 120, 299, 600, 2_000):
        allowed = allowed_errors(n, promise)
        upper = [binomtest(k, n).proportion_ci(0.9).high for k in (max(allowed, 0), allowed + 1)]  # 95% one-sided
        assert upper[1] > promise
        assert allowed < 0 or upper[0] <= promise


@pytest.mark.parametrize("kind", PromiseKind)
def test_true_rate_of_cutoff_has_distribution_of_order_statistic(kind, random):
    n, promise, draws = 120, 0.1, 4_000
    rates = []
    for _ in range(draws):
        cutoff = find_cutoff(random.random(n), kind, promise, unit=1e-9)
        rates.append(cutoff if kind is PromiseKind.MISS else 1 - cutoff)
    k = allowed_errors(n, promise) + 1
    expected = beta.cdf(promise, k, n - k + 1)
    assert expected >= 0.95
    assert np.mean(np.array(rates) <= promise) == pytest.approx(expected, abs=4 * (0.05 * 0.95 / draws) ** 0.5)


def test_share_has_clopper_pearson_interval():
    for wrong, n in ((0, 7), (3, 40), (40, 40)):
        rate = count_share(np.arange(n) < wrong)
        interval = binomtest(wrong, n).proportion_ci()
        assert (rate.value, rate.pairs) == (wrong / n, n)
        assert (rate.low, rate.high) == pytest.approx((interval.low, interval.high), abs=1e-9)
    assert count_share(np.zeros(0, bool)) is None


@pytest.mark.parametrize("digits", [None, 1])
@pytest.mark.parametrize("n", [60, 700])
def test_curve_is_isotonic_regression(digits, n, random):
    similarities = random.normal(size=n) if digits is None else random.normal(size=n).round(digits)
    is_match = random.random(n) < 1 / (1 + np.exp(-2 * similarities))
    curve = match_curve(similarities, is_match, seed=0)
    oracle = IsotonicRegression().fit(similarities, is_match)
    expected = oracle.predict([point.similarity for point in curve])
    np.testing.assert_allclose([point.share for point in curve], expected, atol=1e-9)
    for lower, upper in pairwise(curve):
        assert lower.similarity < upper.similarity
        assert (lower.low, lower.high) <= (upper.low, upper.high)
    assert all(0 <= point.low <= point.share <= point.high <= 1 for point in curve)
    np.testing.assert_array_equal(
        [point.similarity for point in match_curve(similarities, is_match, 0, sign=-1)],
        [-point.similarity for point in curve[::-1]],
    )
