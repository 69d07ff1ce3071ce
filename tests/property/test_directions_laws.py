import math

import pytest
import torch
from clouds import clouds, rotation, seeds
from hypothesis import given
from hypothesis import strategies as st

from isotropy.cosine import CosineMoments
from isotropy.partition import PartitionFunction
from isotropy.uniformity import uniformity

sizes = st.lists(st.integers(0, 10), min_size=1, max_size=5)


def pieces(x, sizes):
    return x.tensor_split(torch.tensor(sizes).cumsum(0).clamp(max=len(x)))


def rogue(*parts):
    moments = CosineMoments(parts[0].shape[1])
    for part in parts:
        moments.update(part)
    return moments


def partition(eigenvectors, *parts):
    function = PartitionFunction(eigenvectors)
    for part in parts:
        function.update(part)
    return function


def compute_eigenvectors(x):
    return torch.linalg.eigh(x.T @ x).eigenvectors


def shuffled(x, seed):
    return x[torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))]


@given(clouds(), sizes, st.integers(0, 30))
def test_chunked_or_merged_contributions_match_all_pairs(x, sizes, cut):
    units = x / x.norm(dim=1, keepdim=True)
    expected = (units.sum(0).square() - units.square().sum(0)) / (len(x) * (len(x) - 1))
    merged = rogue(x[:cut])
    merged.merge(rogue(x[cut:]))
    for moments in (rogue(*pieces(x, sizes)), merged):
        result = moments.rogue_dimensions()
        torch.testing.assert_close(result.contributions, expected, rtol=1e-9, atol=1e-12)
        assert float(result.contributions.sum()) == pytest.approx(moments.mean_cosine().value, abs=1e-12)
        assert result.score.value == pytest.approx(float(expected.max()), abs=1e-12)


@given(clouds(), seeds)
def test_contributions_follow_dimensions_and_ignore_norms(x, seed):
    generator = torch.Generator().manual_seed(seed)
    columns = torch.randperm(x.shape[1], generator=generator)
    lengths = 0.1 + torch.rand(len(x), 1, dtype=torch.float64, generator=generator)
    moved = rogue((x * lengths)[:, columns]).rogue_dimensions()
    contributions = rogue(x).rogue_dimensions()
    torch.testing.assert_close(moved.contributions, contributions.contributions[columns], rtol=1e-9, atol=1e-12)
    assert moved.score.value == pytest.approx(contributions.score.value, abs=1e-12)


@given(clouds(), sizes, st.integers(0, 30))
def test_chunked_or_merged_partition_function_is_exact(x, sizes, cut):
    eigenvectors = compute_eigenvectors(x)
    total = partition(eigenvectors, x)
    merged = partition(eigenvectors, x[:cut])
    merged.merge(partition(eigenvectors, x[cut:]))
    for second in (partition(eigenvectors, *pieces(x, sizes)), merged):
        assert second.n == len(x)
        torch.testing.assert_close(second.log_z, total.log_z, rtol=1e-12, atol=1e-10)


@given(clouds(), seeds)
def test_partition_isotropy_ignores_rotation_order_and_signs(x, seed):
    eigenvectors, turn = compute_eigenvectors(x), rotation(x.shape[1], seed)
    signs = torch.randn(len(turn), generator=torch.Generator().manual_seed(seed)).sign()
    moved = partition(turn.T @ eigenvectors * signs, shuffled(x, seed) @ turn)
    assert moved.log_isotropy().value == pytest.approx(partition(eigenvectors, x).log_isotropy().value, abs=1e-8)


@given(clouds(), st.floats(1e-3, 0.1))
def test_partition_isotropy_is_exponential_of_logarithm(x, scale):
    x = x / x.norm(dim=1, keepdim=True).mean() * scale
    result = partition(compute_eigenvectors(x), x)
    assert result.isotropy().value == pytest.approx(math.exp(result.log_isotropy().value), rel=1e-12)
    # |c.x| is at most ||x||.
    assert math.exp(-2 * float(x.norm(dim=1).max())) <= result.isotropy().value


@given(clouds(), seeds, st.integers(1, 5))
def test_uniformity_is_bounded_and_invariant(x, seed, zeros):
    squares = torch.pdist(x / x.norm(dim=1, keepdim=True)).square()
    assert -2 * float(squares.mean()) - 1e-9 <= uniformity(x).value <= -2 * float(squares.min()) + 1e-9
    assert uniformity(torch.cat([x, torch.zeros_like(x[:zeros])])).value == uniformity(x).value
    lengths = 0.1 + torch.rand(len(x), 1, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    moved = shuffled(x * lengths, seed) @ rotation(x.shape[1], seed)
    assert uniformity(moved).value == pytest.approx(uniformity(x).value, rel=1e-9, abs=1e-12)
