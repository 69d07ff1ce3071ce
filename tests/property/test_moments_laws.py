import math
from itertools import pairwise

import pytest
import torch
from clouds import clouds, rotation, seeds, solved_clouds
from hypothesis import given
from hypothesis import strategies as st

from isotropy.anisotropy import anisotropy, mean_share, second_moment
from isotropy.cosine import CosineMoments
from isotropy.isoscore import participation_ratio
from isotropy.partition import PartitionFunction
from isotropy.rank import alpha_req, effective_rank, explained_variance, rankme, stable_rank
from isotropy.spectrum import Moments, eigenvalues
from isotropy.uniformity import uniformity


def stream(kind, x, sizes=()):
    moments = kind(x.shape[1])
    for piece in x.tensor_split(torch.tensor(sizes, dtype=torch.int64).cumsum(0).clamp(max=len(x))):
        moments.update(piece)
    return moments


def partition(eigenvectors, x, sizes=()):
    return stream(lambda _: PartitionFunction(eigenvectors), x, sizes)


def compute_moments(x):
    return stream(Moments, x)


sizes = st.lists(st.integers(0, 10), min_size=1, max_size=5)


@given(clouds(), sizes)
def test_chunked_moments_are_exact_and_shares_sum_to_one(x, sizes):
    total, chunked = compute_moments(x), stream(Moments, x, sizes)
    assert chunked.n == total.n == len(x)
    torch.testing.assert_close(chunked.mean, total.mean, rtol=1e-12, atol=1e-10)
    torch.testing.assert_close(chunked.covariance(), total.covariance(), rtol=1e-10, atol=1e-9)
    torch.testing.assert_close(total.covariance(), torch.cov(x.T), rtol=1e-10, atol=1e-9)
    energy = float(x.square().sum(1).mean())
    spread = float((x - x.mean(0)).square().sum(1).mean())
    assert mean_share(total).value == pytest.approx(1 - spread / energy, abs=1e-9)


@given(clouds(), st.integers(0, 30))
def test_merged_moments_ignore_order(x, cut):
    total = compute_moments(x)
    for first, second in ((x[:cut], x[cut:]), (x[cut:], x[:cut])):
        merged = compute_moments(first)
        merged.merge(compute_moments(second))
        assert merged.n == total.n
        torch.testing.assert_close(merged.mean, total.mean, rtol=1e-12, atol=1e-10)
        torch.testing.assert_close(merged.covariance(), total.covariance(), rtol=1e-10, atol=1e-9)


@given(solved_clouds())
def test_eigenvalues_match_known_spectrum(solved):
    x, spectrum = solved
    values = eigenvalues(compute_moments(x).covariance())
    torch.testing.assert_close(values, spectrum, rtol=1e-9, atol=1e-9 * float(spectrum[0]))


@given(clouds(), seeds, st.booleans())
def test_anisotropy_ignores_rotation_and_scale(x, seed, centered):
    d = x.shape[1]

    def compute_shares(x):
        moments = compute_moments(x)
        S = moments.covariance() if centered else second_moment(moments)
        return [score.value for score in anisotropy(eigenvalues(S, len(x) - centered), d)]

    shares, turned = compute_shares(x), compute_shares(7 * x @ rotation(d, seed))
    assert turned == pytest.approx(shares, abs=1e-9)
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1)


@given(clouds(), sizes, st.integers(0, 30))
def test_chunked_or_merged_mean_cosine_averages_all_pairs(x, sizes, cut):
    units = x / x.norm(dim=1, keepdim=True)
    n = len(x)
    expected = float(((units @ units.T).sum() - n) / (n * (n - 1)))
    merged = stream(CosineMoments, x[:cut])
    merged.merge(stream(CosineMoments, x[cut:]))
    for moments in (stream(CosineMoments, x, sizes), merged):
        assert moments.mean_cosine().value == pytest.approx(expected, abs=1e-10)


@given(clouds(), seeds)
def test_mean_cosine_ignores_rotation_and_norms(x, seed):
    lengths = 0.1 + torch.rand(len(x), 1, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    moved = stream(CosineMoments, (x * lengths) @ rotation(x.shape[1], seed))
    assert moved.mean_cosine().value == pytest.approx(stream(CosineMoments, x).mean_cosine().value, abs=1e-10)


def scores(x, sizes=()):
    """Return the ranks of the centered points and RankMe of the raw points, from pieces of a cloud."""
    moments = stream(Moments, x, sizes)
    centered = eigenvalues(moments.covariance(), moments.n - 1)
    values = [
        effective_rank(centered, "sigma"),
        effective_rank(centered, "lambda"),
        stable_rank(centered),
        alpha_req(centered, (1, 5)),
        *explained_variance(centered, len(centered)),
    ]
    raw = rankme(eigenvalues(second_moment(moments), moments.n), moments.n)
    return [score.value for score in values], raw.value


# Two points have one direction, too few to fit a slope.
clouds_of_three = clouds(min_n=3)


@given(clouds_of_three, seeds, st.floats(1e-9, 1e9), st.floats(-1e3, 1e3))
def test_ranks_ignore_rotation_order_and_scale(x, seed, scale, shift):
    centered, raw = scores(x)
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    for moved in (x[rows] @ rotation(x.shape[1], seed), x * scale):
        assert scores(moved)[0] == pytest.approx(centered, rel=1e-7)
        assert scores(moved)[1] == pytest.approx(raw, rel=1e-7)
    assert scores(x + shift)[0] == pytest.approx(centered, rel=1e-7)


@given(clouds_of_three, sizes)
def test_chunked_ranks_are_exact(x, sizes):
    centered, raw = scores(x, sizes)
    assert centered == pytest.approx(scores(x)[0], rel=1e-7)
    assert raw == pytest.approx(scores(x)[1], rel=1e-7)


@given(clouds_of_three)
def test_ranks_are_ordered_and_bounded(x):
    n, d = x.shape
    (by_sigma, by_lambda, stable, *_), _ = scores(x)
    pr = participation_ratio(torch.cov(x.T)).value
    ordered = [1, stable, pr, by_lambda, by_sigma, min(n - 1, d)]
    assert all(lower <= higher * (1 + 1e-9) for lower, higher in pairwise(ordered))


@given(solved_clouds(equal=True))
def test_k_equal_eigenvalues_have_rank_k(solved):
    x, spectrum = solved
    k = int(spectrum.count_nonzero())
    (by_sigma, by_lambda, stable, *_), _ = scores(x)
    assert [by_sigma, by_lambda, stable] == pytest.approx([k] * 3, rel=1e-9)


def compute_eigenvectors(x):
    return torch.linalg.eigh(x.T @ x).eigenvectors


def shuffled(x, seed):
    return x[torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))]


@given(clouds(), sizes, st.integers(0, 30))
def test_chunked_or_merged_contributions_match_all_pairs(x, sizes, cut):
    units = x / x.norm(dim=1, keepdim=True)
    expected = (units.sum(0).square() - units.square().sum(0)) / (len(x) * (len(x) - 1))
    merged = stream(CosineMoments, x[:cut])
    merged.merge(stream(CosineMoments, x[cut:]))
    for moments in (stream(CosineMoments, x, sizes), merged):
        result = moments.rogue_dimensions()
        torch.testing.assert_close(result.contributions, expected, rtol=1e-9, atol=1e-12)
        assert float(result.contributions.sum()) == pytest.approx(moments.mean_cosine().value, abs=1e-12)
        assert result.score.value == pytest.approx(float(expected.max()), abs=1e-12)


@given(clouds(), seeds)
def test_contributions_follow_dimensions_and_ignore_norms(x, seed):
    generator = torch.Generator().manual_seed(seed)
    columns = torch.randperm(x.shape[1], generator=generator)
    lengths = 0.1 + torch.rand(len(x), 1, dtype=torch.float64, generator=generator)
    moved = stream(CosineMoments, (x * lengths)[:, columns]).rogue_dimensions()
    contributions = stream(CosineMoments, x).rogue_dimensions()
    torch.testing.assert_close(moved.contributions, contributions.contributions[columns], rtol=1e-9, atol=1e-12)
    assert moved.score.value == pytest.approx(contributions.score.value, abs=1e-12)


@given(clouds(), sizes)
def test_chunked_partition_function_is_exact(x, sizes):
    eigenvectors = compute_eigenvectors(x)
    total, chunked = partition(eigenvectors, x), partition(eigenvectors, x, sizes)
    assert chunked.n == len(x)
    torch.testing.assert_close(chunked.log_z, total.log_z, rtol=1e-12, atol=1e-10)


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
