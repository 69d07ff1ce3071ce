import json

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from isotropy import projection as module
from isotropy.catalog import Similarity
from isotropy.cloud import read_cloud
from isotropy.layout import count_neighbors_kept, lay_out, nearest_by_similarity
from isotropy.projection import PointMapCollector, projection
from isotropy.rows import Rows


def points(n, d, seed=0):
    rng = np.random.default_rng(seed)
    rotation, _ = np.linalg.qr(rng.normal(size=(d, d)))
    return 7 + rng.normal(size=(n, d)) * np.arange(1, d + 1) @ rotation


def projection_of(x, labels=None, seed=0):
    data = projection(read_cloud(Rows(x, labels)), seed)
    json.dumps(data, allow_nan=False)
    return data


def by_row(data):
    rows = [int(data["labels"]["names"][code]) for code in data["labels"]["codes"]]
    return rows, np.array([data["x"], data["y"], data["z"]]).T[np.argsort(rows)]


@pytest.fixture
def few_drawn(monkeypatch):
    monkeypatch.setattr(module, "MAX_POINTS", 100)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d"), [(300, 6), (12, 40), (300, 2)])
def test_coordinates_match_scikit_learn_up_to_sign(n, d, dtype):
    x = points(n, d).astype(dtype)
    rows, at = by_row(projection_of(x, [str(i) for i in range(n)]))
    assert sorted(rows) == list(range(n))
    components = min(3, d)
    pca = PCA(components).fit(x.astype(float))
    loadings = pca.components_[range(components), np.abs(pca.components_).argmax(axis=1)]
    expected_axes = pca.transform(x.astype(float)) * np.sign(loadings)
    np.testing.assert_allclose(at[:, :components], expected_axes, rtol=1e-4, atol=1e-4)
    assert not at[:, components:].any()


def test_axes_are_uncorrelated_with_fixed_signs():
    x = points(500, 6)
    data = projection_of(x)
    np.testing.assert_allclose(np.corrcoef([data[axis] for axis in "xyz"]), np.eye(3), atol=1e-4)
    x = np.random.default_rng(0).normal(size=(200, 3)) * [1, 0.01, 5]
    for mirrored in (x, -x):
        _, at = by_row(projection_of(mirrored, [str(i) for i in range(200)]))
        assert np.corrcoef(at[:, 0], mirrored[:, 2])[0, 1] > 0.99
        assert np.corrcoef(at[:, 1], mirrored[:, 0])[0, 1] > 0.99


def test_points_are_shuffled_by_seed_with_their_labels():
    names = [str(i) for i in range(300)]
    (first, _), (again, _), (third_draw, _) = (by_row(projection_of(points(300, 3), names, seed)) for seed in (0, 0, 1))
    assert first == again != third_draw
    assert first != sorted(first)
    x = points(200, 3)
    x[[0, 5, 70]] = np.nan
    data = projection_of(x, [str(i) for i in range(200)])
    rows, at = by_row(data)
    finite = np.isfinite(x).all(axis=1)
    assert (data["n"], sorted(rows)) == (197, finite.nonzero()[0].tolist())
    assert data["rows"] == rows
    np.testing.assert_allclose(at, by_row(projection_of(x[finite], [str(i) for i in range(197)]))[1])


def test_many_rows_are_sampled_and_all_are_counted(few_drawn):
    x = points(1000, 4)
    x[17] += 1e4
    data = projection_of(x, [str(i) for i in range(1000)])
    rows, _ = by_row(data)
    assert len(data["x"]) == len(data["y"]) == len(set(rows)) == 100
    density = data["density"]
    assert np.shape(density["counts"]) == (100, 100)
    assert len(density["x_edges"]) == len(density["y_edges"]) == 101
    assert density["outside"] > 0
    assert np.sum(density["counts"]) + density["outside"] == 1000


def test_density_counts_rows_at_their_coordinates(few_drawn):
    # Along x two groups at -12 and 4, along y nearly nothing.
    x = np.zeros((1000, 2))
    x[:, 0] = np.where(np.arange(1000) < 250, -12, 4)
    x[:, 1] = np.tile([0.5, -0.5], 500)
    density = projection_of(x)["density"]
    counts = np.array(density["counts"])
    ys, xs = counts.nonzero()
    y_edges, x_edges = np.array(density["y_edges"]), np.array(density["x_edges"])
    assert {(round(x_edges[i]), round(y_edges[j], 1)): counts[j, i] for j, i in zip(ys, xs, strict=True)} == {
        (-12, -0.5): 125, (-12, 0.5): 125, (4, -0.5): 375, (4, 0.5): 375,
    }  # fmt: skip


@pytest.mark.parametrize("d", [1, 3])
def test_axis_without_variance_is_zero(d, few_drawn):
    line = np.outer(np.random.default_rng(0).normal(size=1000), np.arange(1.0, d + 1))
    for n in (2, 50, 1000):
        data = projection_of(line[:n])
        assert data["shares"] == [pytest.approx(1), 0, 0]
        assert set(data["y"]) == set(data["z"]) == {0}
        assert len(set(data["x"])) == min(n, 100)
        assert data["reason"] is None
    assert np.sum(data["density"]["counts"]) + data["density"]["outside"] == 1000


NO_SPREAD = "The covariance is zero: all points are equal, or there are fewer than two."


@pytest.mark.parametrize("x", [np.empty((0, 3)), np.ones((1, 3)), np.full((50, 3), 0.1)])
def test_projection_without_variance_states_reason(x):
    assert projection_of(x, ["a"] * len(x)) == {
        "n": len(x), "x": [], "y": [], "z": [], "rows": [], "shares": [None] * 3, "names": None,
        "labels": None, "density": None, "reason": NO_SPREAD,
    }  # fmt: skip


def test_classes_are_sorted_by_size_and_unlabeled_come_last(monkeypatch):
    x = points(100, 3)
    names = ["small"] * 10 + [""] * 50 + ["great"] * 30 + ["middle"] * 10
    labels = projection_of(x, names)["labels"]
    assert labels["names"] == ["great", "small", "middle", ""]
    assert np.bincount(labels["codes"]).tolist() == [30, 10, 10, 50]
    monkeypatch.setattr(module, "MAX_NAMES", 2)
    labels = projection_of(x, names)["labels"]
    assert labels["names"] == ["great", "small", ""]
    assert np.bincount(labels["codes"]).tolist() == [30, 10, 60]
    assert projection_of(x)["labels"] is None


def test_drawn_points_have_truncated_row_names(few_drawn):
    x = points(300, 4)
    x[7] = np.nan
    names = [f"{i} {'x' * 80}" for i in range(300)]
    cloud = read_cloud(Rows(x, [str(i) for i in range(300)]))
    data = projection(cloud, 0, lambda rows: [names[row] for row in rows.tolist()])
    rows, _ = by_row(data)
    assert data["names"] == [names[row][:60] for row in rows]
    assert projection_of(x)["names"] is None


def mapped(x, size=None, seed=0):
    cloud = read_cloud(Rows(x))
    collected = PointMapCollector(min(cloud.n, size or cloud.n), seed)
    data = projection(cloud, collector=collected)
    return collected.mapped_rows(cloud.unit), data


def cloud(n=300, d=5):
    return np.random.default_rng(0).normal(size=(n, d)) * np.arange(1, d + 1) + 2


def test_map_has_coordinates_and_norms_of_rows():
    x = cloud()
    x[[7, 30], 1] = np.nan
    rows, data = mapped(x)
    assert rows.rows.tolist() == [row for row in range(300) if row not in (7, 30)]
    assert rows.xy.dtype == rows.norms.dtype == np.float32
    assert rows.norms == pytest.approx(np.linalg.norm(x[rows.rows], axis=1), rel=1e-6)
    index = {row: at for at, row in enumerate(data["rows"])}
    drawn = [(data["x"][index[row]], data["y"][index[row]]) for row in rows.rows.tolist()]
    assert rows.xy == pytest.approx(np.array(drawn), rel=1e-4, abs=1e-4)
    assert rows.unit == 1
    (first, _), (same, _), (second, _) = (mapped(cloud(), 50, seed) for seed in (0, 0, 1))
    assert len(first.rows) == len(first.xy) == 50
    assert (np.diff(first.rows) > 0).all()
    assert first.rows.tolist() == same.rows.tolist() != second.rows.tolist()
    complete, _ = mapped(cloud())
    assert first.xy == pytest.approx(complete.xy[first.rows])


@pytest.mark.parametrize("scale", [1e-200, 1e-40, 1e35, 1e150])
def test_extreme_coordinates_are_stored_in_scaled_units(scale):
    x = cloud()
    rows, _ = mapped(x * scale)
    plain, _ = mapped(x)
    assert np.frexp(rows.unit)[0] == 0.5
    assert np.isfinite(rows.xy).all()
    assert np.abs(rows.xy).max() <= 1
    assert rows.xy.astype(np.float64) * (rows.unit / scale) == pytest.approx(plain.xy, rel=1e-5, abs=1e-5)


CLUSTERS, ROWS = 6, 30


def make_clusters():
    """Return points around six centers in 20 dimensions, in random order, and the center of each."""
    generator = np.random.default_rng(0)
    codes = generator.permutation(np.repeat(np.arange(CLUSTERS), ROWS))
    return (generator.normal(size=(CLUSTERS, 20)) * 3)[codes] + generator.normal(size=(len(codes), 20)), codes


def find_nearest(x, k, metric="euclidean"):
    return NearestNeighbors(n_neighbors=k, metric=metric, algorithm="brute").fit(x).kneighbors(return_distance=False)


def components(x):
    centered = x - x.mean(axis=0)
    return centered @ np.linalg.svd(centered, full_matrices=False)[2][:2].T


@pytest.mark.parametrize("similarity", Similarity)
@pytest.mark.parametrize("scale", [1, 1e150])
def test_nearest_rows_are_those_of_brute_force(similarity, scale):
    x, _ = make_clusters()
    indices, distances = nearest_by_similarity(torch.from_numpy((x + 1) * scale), 7, similarity)
    products = (x + 1) @ (x + 1).T
    np.fill_diagonal(products, -np.inf)
    by_dot = (-products).argsort(axis=1)[:, :7]
    expected = by_dot if similarity is Similarity.DOT else find_nearest(x + 1, 7, similarity.value)
    assert indices.numpy().tolist() == expected.tolist()
    assert (distances[:, 0] == 0).all()
    assert (distances.diff() >= 0).all()
    if similarity is Similarity.COSINE:
        unit = (x + 1) / np.linalg.norm(x + 1, axis=1, keepdims=True)
        squares = ((unit[:, None] - unit[expected]) ** 2).sum(axis=2)
        assert distances.numpy() == pytest.approx(squares - squares[:, :1], abs=1e-12)


def test_layout_keeps_clusters_and_neighbors_and_is_repeatable():
    x, codes = make_clusters()
    start = components(x)
    indices, distances = nearest_by_similarity(torch.from_numpy(x), 31, Similarity.EUCLIDEAN)
    layout = lay_out(indices, distances, start)
    assert (layout.shape, layout.dtype) == ((len(x), 2), np.float32)
    assert np.array_equal(layout, lay_out(indices, distances, start))
    neighbors = find_nearest(layout, 10)
    assert (codes[neighbors] == codes[:, None]).mean() > 0.99
    truth = find_nearest(x, 10)
    for picture in (layout, start):
        drawn = find_nearest(picture, 10)
        shared = np.mean([len(set(a) & set(b)) for a, b in zip(truth.tolist(), drawn.tolist(), strict=True)])
        assert count_neighbors_kept(indices[:, :10], picture) == pytest.approx(shared)
    assert count_neighbors_kept(indices[:, :10], layout) > count_neighbors_kept(indices[:, :10], start) + 1


def test_picture_of_the_plane_keeps_all_neighbors():
    x = np.random.default_rng(1).normal(size=(40, 2))
    indices, _ = nearest_by_similarity(torch.from_numpy(x), 10, Similarity.EUCLIDEAN)
    assert count_neighbors_kept(indices, x) == 10
