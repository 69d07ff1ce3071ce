import pytest
import torch
from clouds import clouds, rotation, seeds, solved_clouds
from hypothesis import given
from hypothesis import strategies as st

from isotropy.anisotropy import anisotropy, mean_share, second_moment
from isotropy.cosine import CosineMoments
from isotropy.spectrum import Moments, covariance, eigenvalues


def stream(kind, x, sizes):
    moments = kind(x.shape[1])
    for piece in x.tensor_split(torch.tensor(sizes).cumsum(0).clamp(max=len(x))):
        moments.update(piece)
    return moments


def compute_moments(x):
    return stream(Moments, x, [0])


sizes = st.lists(st.integers(0, 10), min_size=1, max_size=5)


@given(clouds(), sizes)
def test_chunked_moments_are_exact_and_shares_sum_to_one(x, sizes):
    total, chunked = compute_moments(x), stream(Moments, x, sizes)
    assert chunked.n == total.n == len(x)
    torch.testing.assert_close(chunked.mean, total.mean, rtol=1e-12, atol=1e-10)
    torch.testing.assert_close(chunked.covariance(), total.covariance(), rtol=1e-10, atol=1e-9)
    torch.testing.assert_close(total.covariance(), covariance(x), rtol=1e-10, atol=1e-9)
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
    merged = stream(CosineMoments, x[:cut], [0])
    merged.merge(stream(CosineMoments, x[cut:], [0]))
    for moments in (stream(CosineMoments, x, sizes), merged):
        assert moments.mean_cosine().value == pytest.approx(expected, abs=1e-10)


@given(clouds(), seeds)
def test_mean_cosine_ignores_rotation_and_norms(x, seed):
    lengths = 0.1 + torch.rand(len(x), 1, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    moved = stream(CosineMoments, (x * lengths) @ rotation(x.shape[1], seed), [0])
    assert moved.mean_cosine().value == pytest.approx(stream(CosineMoments, x, [0]).mean_cosine().value, abs=1e-10)
