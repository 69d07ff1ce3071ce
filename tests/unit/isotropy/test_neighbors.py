import math

import pytest
import torch

from isotropy import neighbors as module
from isotropy import products, tiles
from isotropy.neighbors import distinct_rows, nearest_neighbors
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
    monkeypatch.setattr(module, "fast_precisions", lambda _: PRECISIONS[PRECISIONS.index(request.param) :])
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
    assert module.fast_precisions(torch.device("cpu"))[0] == first
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    assert module.fast_precisions(torch.device("cpu")) == [torch.float32, torch.float64]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert module.fast_precisions(torch.device("cpu")) == [torch.float64]


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
    monkeypatch.setattr(products, "BLOCK", 7 * 333)
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
