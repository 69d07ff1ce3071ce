import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from isotropy.catalog import Similarity
from isotropy.layout import count_neighbors_kept, lay_out, nearest_by_similarity

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
