import math

import pytest
import torch

from isotropy import neighbors, pairs, products, tiles
from isotropy.catalog import Similarity
from isotropy.distances import CenteredPoints, center_of, distances
from isotropy.neighbors import distinct_rows, nearest_neighbors
from isotropy.pairs import DirectionDistances, index_distinct_rows, measure_euclidean_pairs
from isotropy.points import lengths
from isotropy.products import Products
from isotropy.tiles import find_smallest_bounds
from isotropy.uniformity import uniformity
from tests.points import randn
from tests.rounding import tolerance

PRECISIONS = [torch.bfloat16, torch.float32, torch.float64]


def brute_force(x, k):
    """Return distances and indices [n, k] by definition: float64 differences, sorted; ties by row."""
    distances = (x.double()[:, None] - x.double()).square().sum(2).sqrt()
    distances.fill_diagonal_(math.inf)
    distances, indices = distances.sort(dim=1, stable=True)
    return distances[:, :k], indices[:, :k]


def measured(x):
    return tolerance(x.shape[1] + 4, torch.float64)


def assert_exact(x, k):
    ours, (distances, indices) = nearest_neighbors(x, k), brute_force(x, k)
    torch.testing.assert_close(ours.distances, distances, rtol=measured(x), atol=0)
    assert torch.equal(ours.indices, indices)


@pytest.fixture(params=PRECISIONS, ids=str)
def first_precision(request, monkeypatch):
    monkeypatch.setattr(neighbors, "fast_precisions", lambda _: PRECISIONS[PRECISIONS.index(request.param) :])
    return request.param


@pytest.mark.usefixtures("first_precision")
@pytest.mark.parametrize("k", [1, 2, 10])
@pytest.mark.parametrize("d", [1, 3, 100])
def test_every_precision_matches_brute_force(d, k):
    assert_exact(randn(300, d), k)


@pytest.mark.usefixtures("first_precision")
@pytest.mark.parametrize("scale", [1e-12, 1, 1e12])
def test_neighbors_do_not_depend_on_scale(scale):
    assert_exact((randn(200, 20) * scale).float(), 5)


@pytest.mark.usefixtures("first_precision")
def test_difficult_clouds_have_exact_neighbors():
    assert_exact(randn(200, 20) + 1e8, 5)
    centers = 1e6 * randn(4, 10, seed=1)
    assert_exact(centers.repeat_interleave(60, dim=0) + 1e-3 * randn(240, 10), 3)
    x = randn(200, 10)
    x[7] = 1e30
    assert_exact(x, 3)
    assert_exact(torch.cartesian_prod(*[torch.arange(12.0)] * 2), 6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("power", [-1, 1])
def test_overflowing_squares_keep_neighbors(dtype, power):
    scale = torch.finfo(dtype).max ** (0.9 * power)
    ours, unscaled = (nearest_neighbors(randn(100, 8).to(dtype) * factor, 3) for factor in (scale, 1))
    torch.testing.assert_close(ours.distances / scale, unscaled.distances, rtol=1e-6, atol=0)
    assert torch.equal(ours.indices, unscaled.indices)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_uses_float64_distances(dtype):
    assert_exact((100 * randn(200, 30)).to(dtype), 4)


def test_float32_distances_use_float64_even_in_autocast():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_exact(randn(200, 30).float(), 4)
    # Differences of coordinates this different in size would be rounded in float32.
    x = (randn(300, 5) * torch.logspace(-4, 4, 300, dtype=torch.float64)[:, None]).float()
    assert_exact(x, 10)


@pytest.mark.parametrize(
    ("has", "first"), [("amx_bf16", torch.bfloat16), ("avx512_bf16", torch.bfloat16), ("avx2", torch.float32)]
)
def test_fast_precisions_depend_on_cpu_and_autocast(monkeypatch, has, first):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": False, "avx512_bf16": False, has: True})
    assert neighbors.fast_precisions(torch.device("cpu"))[0] == first
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    assert neighbors.fast_precisions(torch.device("cpu")) == [torch.float32, torch.float64]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert neighbors.fast_precisions(torch.device("cpu")) == [torch.float64]


def sparse_ones(n, d, count):
    positions = torch.rand(n, d, generator=torch.Generator().manual_seed(0)).topk(count).indices
    return torch.zeros(n, d).scatter_(1, positions, 1.0)


TIED = {
    "one-hot": torch.eye(60),
    "three ones": sparse_ones(400, 30, 3),
    "binary": (randn(400, 16) > 0).float(),
    "a shifted lattice": torch.cartesian_prod(*[torch.arange(7.0)] * 3) / 8 + 1000,
}


@pytest.mark.usefixtures("first_precision")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("cloud", TIED)
def test_ties_are_ordered_by_row(cloud, dtype):
    assert_exact(TIED[cloud].to(dtype), 10)


@pytest.mark.usefixtures("first_precision")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ties_hidden_by_rounding_have_exact_distances(dtype):
    # In float64 the order of adding three coordinates decides which of equal distances comes first.
    x = (0.1 * sparse_ones(400, 30, 3) + 0.7 * sparse_ones(400, 30, 3).roll(1, 0)).to(dtype)
    torch.testing.assert_close(nearest_neighbors(x, 10).distances, brute_force(x, 10)[0], rtol=measured(x), atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_neighbors_keep_roundoff_and_sizes_of_points(dtype):
    x = (1e4 * randn(50, 8)).to(dtype)
    neighbors = nearest_neighbors(x, 5).take_nearest(3)
    assert neighbors.roundoff == torch.finfo(dtype).eps / 2
    torch.testing.assert_close(neighbors.sizes, x.double().square().mean(1).sqrt(), rtol=1e-12, atol=0)


def test_distance_error_is_four_roundings():
    neighbors = nearest_neighbors(torch.tensor([[3.0, 5.0], [3.0, 6.0], [3.0, 8.0]]), 2)
    expected = 4 * (2**-11 * torch.tensor([17.0, 22.5, 36.5]).sqrt()[:, None] + 2**-53 * neighbors.distances)
    torch.testing.assert_close(neighbors.distance_error(2**-11), expected.double())


def test_duplicates_are_at_zero_and_take_nearest_matches_search():
    x = randn(50, 6).repeat(3, 1)
    ours = nearest_neighbors(x, 2)
    assert not ours.distances.any()
    rows = torch.arange(50)
    assert torch.equal(ours.indices[:50], torch.stack([rows + 50, rows + 100], dim=1))
    assert nearest_neighbors(torch.empty(40, 0), 1).distances.tolist() == [[0.0]] * 40
    x = randn(100, 5)
    first, searched = nearest_neighbors(x, 3), nearest_neighbors(x, 9).take_nearest(3)
    assert torch.equal(first.indices, searched.indices)
    torch.testing.assert_close(first.distances, searched.distances, rtol=measured(x), atol=0)


@pytest.mark.usefixtures("first_precision")
def test_neighbors_do_not_depend_on_blocks(monkeypatch):
    x = randn(333, 17).float()
    neighbors = nearest_neighbors(x, 5)
    monkeypatch.setattr(products, "MAX_BOUNDS", 7 * 333)
    monkeypatch.setattr(products, "PAIR_NUMBERS", 50)
    monkeypatch.setattr(tiles, "TILE_ROWS", 48)
    monkeypatch.setattr(tiles, "MAX_PENDING", 100)
    blocked = nearest_neighbors(x, 5)
    torch.testing.assert_close(blocked.distances, neighbors.distances, rtol=measured(x), atol=0)
    assert torch.equal(blocked.indices, neighbors.indices)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_few_points_have_all_others_as_neighbors(n):
    ours = nearest_neighbors(randn(n, 3), 10)
    assert ours.indices.shape == ours.distances.shape == (n, max(n - 1, 0))
    expected_rows = [[j for j in range(n) if j != i] for i in range(n)]
    assert ours.indices.sort(dim=1).values.tolist() == expected_rows


@pytest.mark.parametrize("k", [0, 4])
def test_invalid_number_of_neighbors_is_refused(k):
    with pytest.raises(
        ValueError, match=f"Expected k from 1 to 3, as many neighbors as were searched, got {k}: search"
    ):
        nearest_neighbors(randn(20, 2), 3).take_nearest(k)
    with pytest.raises(ValueError, match="Expected at least 1 neighbor, got k = 0: search for one or more"):
        nearest_neighbors(randn(20, 2), 0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_nonfinite_points_are_refused(bad):
    with pytest.raises(ValueError, match="Expected finite points, got NaN or infinity: leave those rows out"):
        nearest_neighbors(torch.tensor([[1.0, bad], [1.0, 0.0], [0.0, 2.0]]), 1)


@pytest.mark.parametrize("measure", [lambda x: nearest_neighbors(x, 1), distinct_rows])
@pytest.mark.parametrize("x", [torch.ones(3), torch.ones(3, 2, dtype=torch.int64)])
def test_invalid_points_are_refused(measure, x):
    with pytest.raises(ValueError, match="Expected points as a floating tensor"):
        measure(x)


def test_distinct_rows_are_first_occurrences():
    x = torch.tensor([[1.0, 2.0], [0.0, 1.0], [1.0, 2.0], [-0.0, 1.0], [2.0, 1.0]])
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert distinct_rows(x.to(dtype)).tolist() == [0, 1, 4]
    assert [distinct_rows(torch.ones(shape)).tolist() for shape in ((0, 3), (4, 0), (1, 2))] == [[], [0], [0]]


def squares_of(x):
    return (x.double()[:, None] - x.double()).square().sum(2).fill_diagonal_(math.inf)


def bounds_of(x, precision):
    rows = torch.arange(len(x))
    search = Products(x, precision, len(x) - 1)
    return search._bounds_of(rows)[:, : len(x)].double() + search._norm_terms[:, None]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", [2, 500])
def test_bounds_do_not_exceed_squared_distances(precision, dtype, d):
    x = (randn(60, d) * torch.logspace(-6, -1, 60, dtype=torch.float64)[:, None]).to(dtype)
    x = torch.cat([x, x * (1 + 1e-6)])
    assert bool((bounds_of(x, precision) <= squares_of(x)).all())


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "x",
    [torch.eye(40), (randn(40, 300) > 0) / 16, 1 + (9 * randn(40, 5)).round() / 64, torch.ones(9, 2)],
    ids=["one-hot", "binary", "counts", "equal"],
)
def test_bounds_of_scaled_small_integers_are_exact(precision, dtype, x):
    assert torch.equal(bounds_of(x.to(dtype), precision), squares_of(x))


@pytest.mark.parametrize("far", [2**-30, 1 + 2**-12])
def test_one_other_coordinate_makes_all_bounds_inexact(far):
    x = torch.eye(40)
    x[7, 7] = far
    assert bool((bounds_of(x, torch.float32) < squares_of(x)).fill_diagonal_(True).all())


@pytest.mark.parametrize("precision", PRECISIONS)
def test_lower_precisions_report_unsettled_rows(precision):
    rows = torch.arange(200)
    # Two clusters, the second too tight for products in lower precision to separate its points.
    x = torch.cat([randn(100, 4) / 8, 1 + 1e-12 * randn(100, 4, seed=1)])
    distances, indices, settled = Products(x, precision, 22).nearest(rows, 5)
    assert settled[100:].tolist() == [precision == torch.float64] * 100
    assert settled[:100].all()
    squares, nearest = squares_of(x).sort(dim=1, stable=True)
    torch.testing.assert_close(distances[settled], squares[settled, :5].sqrt(), rtol=1e-12, atol=0)
    assert torch.equal(indices[settled], nearest[settled, :5])


def symmetric(n, seed=0):
    x = torch.randn(n, n, generator=torch.Generator().manual_seed(seed))
    return x + x.T


def clustered(n):
    """Return bounds of ordered points, each nearer to the next points than to any previous one."""
    x = torch.arange(float(n)).square()
    return (x[:, None] - x).abs() - x[:, None] - x


def smallest_bounds(bounds, count):
    def tile(rows, columns):
        return bounds[rows, columns].clone()

    return find_smallest_bounds(len(bounds), count, bounds.dtype, bounds.device, tile)


@pytest.mark.parametrize("n", [2, 31, 32, 33, 100])
def test_tiles_hold_each_pair_once(n, monkeypatch):
    monkeypatch.setattr(tiles, "TILE_ROWS", 32)
    counts = torch.zeros(n, n)
    for rows, columns in tiles.tiles(n):
        counts[rows, columns] += 1
    assert torch.equal((counts + counts.T).clamp(max=2) / 2, (counts + counts.T) / 2 if n > 32 else torch.ones(n, n))
    assert bool(((counts + counts.T) > 0).all())


@pytest.mark.parametrize("make", [symmetric, clustered, lambda n: torch.ones(n, n)], ids=["any", "clusters", "equal"])
@pytest.mark.parametrize(("n", "count"), [(2, 1), (40, 39), (200, 7), (211, 34)])
@pytest.mark.parametrize("rows", [16, 40, 1024])
@pytest.mark.parametrize("pending_pairs", [3, 100_000])
def test_smallest_bounds_match_sorting(make, n, count, rows, pending_pairs, monkeypatch):
    monkeypatch.setattr(tiles, "TILE_ROWS", rows)
    monkeypatch.setattr(tiles, "MAX_PENDING", pending_pairs)
    bounds = make(n)
    smallest, neighbors = smallest_bounds(bounds, count)
    pairs = bounds.clone().fill_diagonal_(math.inf)
    assert torch.equal(smallest, pairs.sort(dim=1).values[:, :count])
    assert torch.equal(pairs.gather(1, neighbors), smallest)
    assert all(len(set(row)) == count for row in neighbors.tolist())


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
    monkeypatch.setattr(pairs, "fast_precisions", lambda _: precisions)
    monkeypatch.delattr(pairs, "DirectionDistances")
    assert measure_euclidean_pairs(x, 3).uniformity == uniformity(x)


def differences(x, y):
    return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")


def test_distances_stay_accurate_far_from_origin():
    center = torch.zeros(5).double()
    x, y = 1e6 + 1e-3 * randn(7, 5), torch.cat([1e6 + 1e-3 * randn(4, 5, 1), randn(3, 5, 2)])
    computed = distances(CenteredPoints.about(center, x), CenteredPoints.about(center, y))
    torch.testing.assert_close(computed, differences(x, y), rtol=1e-7, atol=0)
    x = 1e9 + randn(3, 5)
    located = CenteredPoints.about(center_of(x), torch.cat([x, x]))
    assert distances(located[:3], located[3:]).diagonal().tolist() == [0, 0, 0]
    x = randn(3, 5)
    located = CenteredPoints.about(center_of(x), x)
    computed = distances(located, located, torch.tensor([0, 2, 1]))
    assert (computed == math.inf).tolist() == [[True, False, False], [False, False, True], [False, True, False]]
    x = randn(1000, 5)
    x[0] = 1e12
    assert float(center_of(x).abs().max()) < 1
