import pytest
import torch

from isotropy.hubness import HubPoint, find_largest_hubs, hubness
from isotropy.neighbors import NearestNeighbors, nearest_neighbors
from isotropy.score import count_clause


def neighbors_at(indices):
    indices = torch.tensor(indices)
    distances = torch.arange(1, indices.shape[1] + 1, dtype=torch.float64).repeat(len(indices), 1)
    return NearestNeighbors(distances, indices, sizes=torch.ones(len(indices), dtype=torch.float64), roundoff=2**-24)


def test_hubness_of_star_matches_hand_computation():
    star = torch.cat([torch.zeros(1, 6), torch.eye(6), -torch.eye(6)[:1] / 2])
    result = hubness(nearest_neighbors(star, 2), k=1)
    # The center is nearest to all seven, and the shorter arm to the center.
    assert result.greatest.value == 7
    assert result.antihubs.value == 6 / 8
    assert result.robin_hood.value == pytest.approx(6 / 8)
    # Deviations 6, six times -1 and 0: third moment 210 / 8, variance 42 / 8.
    assert result.skewness.value == pytest.approx((210 / 8) / (42 / 8) ** 1.5)
    result = hubness(neighbors_at([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2], [0, 1, 2], [0, 1, 2]]), k=2)
    # Counts 5, 5, 2, 0, 0, 0: of 12 places, 3 and 3 are more than 2.
    assert result.robin_hood.value == pytest.approx(6 / 12)


def test_hubs_are_most_frequent_neighbors_and_circle_has_none():
    angles = torch.arange(30, dtype=torch.float64) * (2 * torch.pi / 30)
    result = hubness(nearest_neighbors(torch.stack([angles.cos(), angles.sin()], dim=1), 5), k=4)
    assert result.skewness.reason == "The skewness is undefined: every point is a neighbor of exactly 4 others."
    assert (result.robin_hood.value, result.antihubs.value, result.greatest.value) == (0, 0, 4)
    x = torch.randn(100, 20, generator=torch.Generator().manual_seed(0))
    wide, enough = (hubness(nearest_neighbors(x, k)) for k in (15, 11))
    assert wide == enough
    counts = nearest_neighbors(x, 10).indices.flatten().bincount(minlength=100)
    assert enough.greatest.value == counts.max()
    result = hubness(neighbors_at([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2], [0, 1, 2], [0, 1, 2]]), k=2)
    assert result.hubs == (HubPoint(0, 5), HubPoint(1, 5), HubPoint(2, 2))
    hubs = find_largest_hubs(torch.tensor([1, 3, 0, 3, 2]), max_hubs=3)
    assert hubs == (HubPoint(1, 3), HubPoint(3, 3), HubPoint(4, 2))
    assert hubness(nearest_neighbors(torch.eye(100), 11)).hubs == ()
    with pytest.raises(ValueError, match="Expected k from 1 to 10, as many neighbors as were searched, got 11"):
        hubness(nearest_neighbors(torch.randn(30, 3), 10))


def sparse(n, d, nonzeros):
    positions = torch.rand(n, d, generator=torch.Generator().manual_seed(0)).topk(nonzeros).indices
    return torch.zeros(n, d).scatter_(1, positions, 1.0)


def binary(n, d):
    return (torch.rand(n, d, generator=torch.Generator().manual_seed(0)) < 0.5).float()


def rotated(x):
    turn = torch.randn(x.shape[1], x.shape[1], dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return x.double() @ torch.linalg.qr(turn).Q


@pytest.mark.parametrize("turned", [lambda x: x, lambda x: rotated(x).float(), rotated], ids=["as is", "32", "64"])
@pytest.mark.parametrize(
    ("x", "share"),
    [(torch.eye(100), "100%"), (sparse(1000, 300, 3), "100%"), (binary(1000, 16), "87%"), (torch.zeros(50, 3), "100%")],
    ids=["one-hot", "three ones", "binary", "duplicates"],
)
def test_tied_neighbors_leave_hubness_undefined(x, share, turned):
    result = hubness(nearest_neighbors(turned(x), 11))
    for score in (result.skewness, result.robin_hood, result.antihubs, result.greatest):
        assert score.value is None
        assert score.reason == (
            f"Hubness is undefined: {share} of the points have a tie for their 10-th nearest neighbor, "
            "which the order of the rows or rounding would decide."
        )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shift", [0, 3])
def test_rounding_without_ties_keeps_hubness(dtype, shift):
    x = torch.randn(1000, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rounded, exact = (hubness(nearest_neighbors(points, 11)) for points in ((x + shift).to(dtype), x))
    assert rounded.skewness.value == pytest.approx(exact.skewness.value, rel=0.02)


def test_ties_of_one_percent_of_points_are_allowed():
    rare, frequent = (neighbors_at([[1 + i % 20, 0] for i in range(100)]) for _ in range(2))
    rare.distances[:1, 1] = frequent.distances[:2, 1] = 1
    assert hubness(rare, k=1).greatest.value == 5
    assert "2% of the points have a tie for their 1-th" in hubness(frequent, k=1).greatest.reason


@pytest.mark.parametrize("n", [0, 1, 5, 11])
def test_too_few_points_have_no_hubness(n):
    result = hubness(nearest_neighbors(torch.randn(n, 3), 11))
    for score in (result.skewness, result.robin_hood, result.antihubs, result.greatest):
        assert score.reason == f"Hubness with k = 10 needs at least 12 points; {count_clause(n)}."
