import pytest
import torch

from isotropy import pairs as module
from isotropy import tiles
from isotropy.catalog import Similarity
from isotropy.neighbors import nearest_neighbors
from isotropy.pairs import DirectionDistances, index_distinct_rows, measure_euclidean_pairs
from isotropy.points import lengths
from isotropy.products import Products
from isotropy.uniformity import uniformity
from tests.points import randn


def with_an_opposite(x):
    return torch.cat([1 + 1e-4 * x, -torch.ones_like(x[:1])])


CLOUDS = {
    "isotropic": randn(150, 20),
    "far mean": 1e3 + randn(150, 20),
    "narrow cone": 1 + 1e-4 * randn(150, 20),
    "cone and its opposite": with_an_opposite(randn(150, 20)),
    "lengths over eight decades": randn(150, 20) * torch.logspace(-4, 4, 150, dtype=torch.float64)[:, None],
    "copies": randn(60, 20).repeat(3, 1)[:150],
    "zero rows": torch.cat([randn(140, 20), torch.zeros(3, 20)]),
    "tiny": 1e-30 * randn(150, 20),
    "one dimension": randn(150, 1),
    "two points": randn(2, 5),
    "one point twice": randn(1, 5).repeat(2, 1),
    "counts": (9 * randn(150, 5)).round(),
}


@pytest.fixture(params=[16, 40, 1024], ids="{} rows".format)
def tile_rows(request, monkeypatch):
    monkeypatch.setattr(tiles, "TILE_ROWS", request.param)


@pytest.mark.usefixtures("tile_rows")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("cloud", CLOUDS)
def test_single_pass_matches_separate_searches(cloud, dtype):
    x = CLOUDS[cloud].to(dtype)
    pairs = measure_euclidean_pairs(x, 11)
    assert pairs.distinct_rows.tolist() == sorted({x.tolist().index(row) for row in x.tolist()})
    neighbors = nearest_neighbors(x[pairs.distinct_rows], 11)
    torch.testing.assert_close(pairs.neighbors.distances, neighbors.distances, rtol=1e-13, atol=0)
    assert torch.equal(pairs.neighbors.indices, neighbors.indices)
    rel = 1e-6 if dtype == torch.float32 else 1e-12
    assert pairs.uniformity.value == pytest.approx(uniformity(x).value, rel=rel, abs=1e-15)
    assert pairs.uniformity.reason == uniformity(x).reason


@pytest.mark.parametrize(
    ("similarity", "distinct", "indices"),
    [(Similarity.COSINE, [1, 3], [2, 0, 0, 1, 2, 1]), (Similarity.DOT, [0, 1, 3], [0, 1, 1, 2, 0, 2])],
)
def test_copies_share_index_of_first(similarity, distinct, indices):
    x = torch.tensor([[0.0, 0], [1, 2], [1, 2], [3, 0], [-0.0, 0], [3, 0]])
    assert [numbers.tolist() for numbers in index_distinct_rows(x, similarity)] == [distinct, indices]


@pytest.mark.usefixtures("tile_rows")
@pytest.mark.parametrize("cloud", ["isotropic", "far mean", "narrow cone", "copies", "zero rows"])
def test_ordinary_clouds_need_no_second_search(cloud, monkeypatch):
    def search_again(*_):
        raise AssertionError("the single pass did not settle every row")

    monkeypatch.setattr(Products, "__init__", search_again)
    assert measure_euclidean_pairs(CLOUDS[cloud].float(), 5).neighbors.indices.shape[1] == 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("cloud", [cloud for cloud in CLOUDS if cloud not in ("copies", "one point twice")])
def test_rounded_distances_stay_within_limit(cloud, dtype):
    x = CLOUDS[cloud].to(dtype)
    x = x / x.abs().max()
    n, all_rows = len(x), slice(0, len(x))
    squares = (x.double()[:, None] - x.double()).square().sum(2)
    bounds = DirectionDistances(x, lengths(x), x.any(dim=1).long())
    rounded = bounds.tile(all_rows, all_rows).double()
    rows = torch.arange(n).repeat_interleave(n)
    limits = bounds.bound_limit(rows, squares.flatten()).view(n, n)
    assert bool((rounded <= limits).all())


@pytest.mark.parametrize(
    ("x", "precisions"),
    [(CLOUDS["counts"].float(), [torch.float32, torch.float64]), (CLOUDS["isotropic"].float(), [torch.float64])],
    ids=["exact products", "float32 in lower precision"],
)
def test_separate_searches_are_used_if_cheaper_or_more_exact(x, precisions, monkeypatch):
    monkeypatch.setattr(module, "fast_precisions", lambda _: precisions)
    monkeypatch.delattr(module, "DirectionDistances")
    assert measure_euclidean_pairs(x, 3).uniformity == uniformity(x)
