import math

import pytest
import torch

from isotropy import tiles as module
from isotropy.tiles import find_smallest_bounds, tiles


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
    monkeypatch.setattr(module, "TILE_ROWS", 32)
    counts = torch.zeros(n, n)
    for rows, columns in tiles(n):
        counts[rows, columns] += 1
    assert torch.equal((counts + counts.T).clamp(max=2) / 2, (counts + counts.T) / 2 if n > 32 else torch.ones(n, n))
    assert bool(((counts + counts.T) > 0).all())


@pytest.mark.parametrize("make", [symmetric, clustered, lambda n: torch.ones(n, n)], ids=["any", "clusters", "equal"])
@pytest.mark.parametrize(("n", "count"), [(2, 1), (40, 39), (200, 7), (211, 34)])
@pytest.mark.parametrize("rows", [16, 40, 1024])
@pytest.mark.parametrize("pending_pairs", [3, 100_000])
def test_smallest_bounds_match_sorting(make, n, count, rows, pending_pairs, monkeypatch):
    monkeypatch.setattr(module, "TILE_ROWS", rows)
    monkeypatch.setattr(module, "MAX_PENDING", pending_pairs)
    bounds = make(n)
    smallest, neighbors = smallest_bounds(bounds, count)
    pairs = bounds.clone().fill_diagonal_(math.inf)
    assert torch.equal(smallest, pairs.sort(dim=1).values[:, :count])
    assert torch.equal(pairs.gather(1, neighbors), smallest)
    assert all(len(set(row)) == count for row in neighbors.tolist())
