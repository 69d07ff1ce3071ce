import math

import pytest
import torch
from clouds import clouds, rotation, seeds
from hypothesis import given
from hypothesis import strategies as st

from isotropy.prominence import prominent_bars, prominent_mask
from isotropy.topology import barcode, persistent_entropy, spanning_tree

lengths = st.lists(st.floats(0.01, 100), min_size=2, max_size=40).map(lambda bars: torch.tensor(bars).double())


def shuffle(seed, n):
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed))


@given(clouds(), seeds, st.floats(-100, 100), st.sampled_from([1e-9, 0.3, 1.0, 7.0, 1e9]))
def test_bars_scale_with_points_and_entropy_is_invariant(x, seed, shift, scale):
    moved = scale * (x @ rotation(x.shape[1], seed) + shift)[shuffle(seed, len(x))]
    bars = barcode(x)
    torch.testing.assert_close(barcode(moved), scale * bars, rtol=1e-9, atol=1e-11 * scale)
    if len(x) > 2:
        entropy = persistent_entropy(bars).value
        assert persistent_entropy(barcode(scale * x)).value == pytest.approx(entropy, rel=1e-9)


@given(clouds(), seeds)
def test_duplicate_point_adds_bar_of_length_zero(x, seed):
    again = torch.cat([x, x[shuffle(seed, len(x))[:1]]])
    torch.testing.assert_close(barcode(again), torch.cat([torch.zeros(1).double(), barcode(x)]), rtol=1e-12, atol=0)


@given(clouds())
def test_bars_are_edge_lengths_of_spanning_tree(x):
    start, end = spanning_tree(x).T
    edges = (x[start] - x[end]).norm(dim=1)
    torch.testing.assert_close(barcode(x), edges.sort().values, rtol=1e-12, atol=0)
    distances = torch.cdist(x, x).fill_diagonal_(math.inf)
    shortest = torch.full((len(x),), math.inf, dtype=torch.float64)
    shortest = shortest.scatter_reduce(0, torch.cat([start, end]), torch.cat([edges, edges]), "amin")
    torch.testing.assert_close(shortest, distances.amin(1), rtol=1e-7, atol=1e-7)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30), seeds, st.integers(1, 9))
def test_bars_of_points_on_line_are_gaps(gaps, seed, d):
    along = torch.tensor([0.0, *gaps], dtype=torch.float64).cumsum(0)[shuffle(seed, len(gaps) + 1)]
    line = along[:, None] * rotation(d, seed)[0]
    torch.testing.assert_close(barcode(line), torch.tensor(sorted(gaps)).double(), rtol=1e-6, atol=1e-10)


@given(lengths, seeds, st.sampled_from([1e-12, 0.5, 3.0, 1e12]))
def test_prominence_ignores_order_and_scale(bars, seed, scale):
    order = shuffle(seed, len(bars))
    mask = prominent_mask(bars)
    reordered = (scale * bars[order])[prominent_mask(bars[order])].sort().values.tolist()
    assert reordered == pytest.approx((scale * bars[mask]).sort().values.tolist())
    assert prominent_bars(scale * bars) == prominent_bars(bars)


@given(lengths)
def test_prominent_bars_are_longest_and_proper_subset(bars):
    mask = prominent_mask(bars)
    assert 1 <= int(mask.sum()) == prominent_bars(bars).value <= len(bars) - 1
    assert bars[mask].min() >= bars[~mask].max()
