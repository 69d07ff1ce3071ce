import pytest
import torch

from isotropy import pairs as module
from isotropy import tiles
from isotropy.neighbours import nearest_neighbours
from isotropy.pairs import DirectionDistances, measure_euclidean_pairs
from isotropy.points import lengths
from isotropy.products import Products
from isotropy.uniformity import uniformity
from tests.points import randn


def with_an_opposite(x):
    return torch.cat([1 + 1e-4 * x, -torch.ones_like(x[:1])])


CLOUDS = {
    "spread evenly": randn(150, 20),
    "a mean far away": 1e3 + randn(150, 20),
    "a narrow cone": 1 + 1e-4 * randn(150, 20),
    "one against a cone": with_an_opposite(randn(150, 20)),
    "lengths over eight orders": randn(150, 20) * torch.logspace(-4, 4, 150, dtype=torch.float64)[:, None],
    "copies": randn(60, 20).repeat(3, 1)[:150],
    "rows of zeros": torch.cat([randn(140, 20), torch.zeros(3, 20)]),
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
def test_one_look_finds_what_two_find(cloud, dtype):
    x = CLOUDS[cloud].to(dtype)
    pairs = measure_euclidean_pairs(x, 11)
    assert pairs.distinct_rows.tolist() == sorted({x.tolist().index(row) for row in x.tolist()})
    neighbours = nearest_neighbours(x[pairs.distinct_rows], 11)
    torch.testing.assert_close(pairs.neighbours.distances, neighbours.distances, rtol=1e-13, atol=0)
    assert torch.equal(pairs.neighbours.indices, neighbours.indices)
    rel = 1e-6 if dtype == torch.float32 else 1e-12
    assert pairs.uniformity.value == pytest.approx(uniformity(x).value, rel=rel, abs=1e-15)
    assert pairs.uniformity.reason == uniformity(x).reason


@pytest.mark.usefixtures("tile_rows")
@pytest.mark.parametrize("cloud", ["spread evenly", "a mean far away", "a narrow cone", "copies", "rows of zeros"])
def test_no_point_of_an_ordinary_cloud_is_searched_again(cloud, monkeypatch):
    def again(*_):
        raise AssertionError("a row was not settled by the first look")

    monkeypatch.setattr(Products, "__init__", again)
    assert measure_euclidean_pairs(CLOUDS[cloud].float(), 5).neighbours.indices.shape[1] == 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("cloud", [cloud for cloud in CLOUDS if cloud not in ("copies", "one point twice")])
def test_rounding_takes_no_distance_beyond_its_limit(cloud, dtype):
    x = CLOUDS[cloud].to(dtype)
    x = x / x.abs().max()
    n, everybody = len(x), slice(0, len(x))
    squares = (x.double()[:, None] - x.double()).square().sum(2)
    bounds = DirectionDistances(x, lengths(x), x.any(dim=1).long())
    rounded = bounds.tile(everybody, everybody).double()
    rows = torch.arange(n).repeat_interleave(n)
    limits = bounds.bound_limit(rows, squares.flatten()).view(n, n)
    assert bool((rounded <= limits).all())


@pytest.mark.parametrize(
    ("x", "precisions"),
    [(CLOUDS["counts"].float(), [torch.float32, torch.float64]), (CLOUDS["spread evenly"].float(), [torch.float64])],
    ids=["exact products", "float32 multiplied in less"],
)
def test_pairs_are_looked_at_twice_where_one_look_would_cost_more_or_tell_less(x, precisions, monkeypatch):
    monkeypatch.setattr(module, "fast_precisions", lambda _: precisions)
    monkeypatch.delattr(module, "DirectionDistances")
    assert measure_euclidean_pairs(x, 3).uniformity == uniformity(x)
