import pytest
import torch
from clouds import clouds, rotation, seeds
from hypothesis import given
from hypothesis import strategies as st

from isotropy.unbiased import FourthMoments, isoscore_unbiased, isoscore_unbiased_from_moments
from tests.points import fourth_moments_of


def approx_value(score):
    return pytest.approx(score.value, rel=1e-6, abs=1e-6) if score.value is not None else None


large_clouds = clouds(min_n=6, max_n=30)


@given(large_clouds, seeds, st.floats(1e-9, 1e9), st.floats(-100, 100))
def test_isoscore_unbiased_ignores_similarity_transforms(x, seed, scale, shift):
    by_pairs = isoscore_unbiased(x, torch.arange(len(x)))
    assert isoscore_unbiased_from_moments(fourth_moments_of(x)).value == approx_value(by_pairs)
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    for moved in (x[rows] @ rotation(x.shape[1], seed), x * scale, x + shift):
        assert isoscore_unbiased(moved).value == approx_value(isoscore_unbiased(x))


@given(large_clouds, st.integers(0, 30), st.integers(0, 30))
def test_chunked_or_merged_fourth_moments_are_exact(x, first, second):
    total = fourth_moments_of(x)
    chunked = FourthMoments(x.shape[1])
    merged = FourthMoments(x.shape[1])
    for piece in x.tensor_split(sorted([first, second])):
        chunked.update(piece)
    for piece in reversed(x.tensor_split(sorted([first, second]))):
        merged.merge(fourth_moments_of(piece))
    fourth = float((x - x.mean(0)).square().sum(1).square().sum())
    for moments in (total, chunked, merged):
        assert moments.n == len(x)
        assert moments.fourth_sum == pytest.approx(fourth, rel=1e-9)
        torch.testing.assert_close(moments.covariance(), total.covariance(), rtol=1e-10, atol=1e-9)


@given(large_clouds, seeds)
def test_line_scores_zero_and_group_names_do_not_matter(x, seed):
    score = isoscore_unbiased(x[:, :1] @ rotation(x.shape[1], seed)[:1])
    assert score.value == pytest.approx(0, abs=1e-7)
    generator = torch.Generator().manual_seed(seed)
    groups = torch.arange(len(x)) % 5
    rows, names = torch.randperm(len(x), generator=generator), torch.randperm(5, generator=generator)
    assert isoscore_unbiased(x[rows], names[groups[rows]]).value == approx_value(isoscore_unbiased(x, groups))
