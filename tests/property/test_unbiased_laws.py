import pytest
import torch
from clouds import clouds, rotation, seeds
from hypothesis import given
from hypothesis import strategies as st

from isotropy.unbiased import FourthMoments, isoscore_unbiased, isoscore_unbiased_from_moments
from tests.points import fourth_moments_of


def near(score):
    return pytest.approx(score.value, rel=1e-6, abs=1e-6) if score.value is not None else None


enough = clouds(min_n=6, max_n=30)


@given(enough, seeds, st.floats(1e-9, 1e9), st.floats(-100, 100))
def test_rotation_reordering_scaling_and_shifts_do_not_change_it_in_either_of_its_forms(x, seed, scale, shift):
    by_pairs = isoscore_unbiased(x, torch.arange(len(x)))
    assert isoscore_unbiased_from_moments(fourth_moments_of(x)).value == near(by_pairs)
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    for moved in (x[rows] @ rotation(x.shape[1], seed), x * scale, x + shift):
        assert isoscore_unbiased(moved).value == near(isoscore_unbiased(x))


@given(enough, st.integers(0, 30), st.integers(0, 30))
def test_fourth_moments_of_chunks_and_of_merged_parts_are_those_of_the_whole(x, first, second):
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


@given(enough, seeds)
def test_points_on_a_line_score_zero_and_the_names_and_order_of_groups_do_not_matter(x, seed):
    score = isoscore_unbiased(x[:, :1] @ rotation(x.shape[1], seed)[:1])
    assert score.value == pytest.approx(0, abs=1e-7)
    generator = torch.Generator().manual_seed(seed)
    groups = torch.arange(len(x)) % 5
    rows, names = torch.randperm(len(x), generator=generator), torch.randperm(5, generator=generator)
    assert isoscore_unbiased(x[rows], names[groups[rows]]).value == near(isoscore_unbiased(x, groups))
