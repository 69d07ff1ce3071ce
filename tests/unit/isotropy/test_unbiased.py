import math

import pytest
import torch

from isotropy.score import there_are
from isotropy.spectrum import CHUNK_ROWS
from isotropy.unbiased import FourthMoments, isoscore_unbiased, isoscore_unbiased_from_moments

NOT_FINITE = "The covariance is not finite: some points are NaN, infinite or too large."
CANCELLED = (
    "The estimate of tr(S)^2 or tr(S S) is not above zero: there are too few points, "
    "or nearly all of the spread is that of one."
)


def points(n, d, dtype=torch.float64):
    return torch.randn(n, d, dtype=dtype, generator=torch.Generator().manual_seed(n * d))


def moments_of(x):
    moments = FourthMoments(x.shape[1])
    moments.update(x)
    return moments


def test_the_score_of_a_square_is_known_by_hand_and_leaves_zero_to_one():
    # Of the 24 ways to pair the corners (0, 0), (1, 0), (0, 1), (1, 1), 8 pair opposite corners and 16 neighbours: the
    # mean of D D / 4 is (8 * 2 * 2 + 16 * 1 * 1) / 24 / 4 = 1/2; squared products are 0 for opposite corners and 1 for
    # neighbours: 16 / 24 / 4 = 1/6. So PR = 3, beyond d = 2, and the score is 2.
    square = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    assert isoscore_unbiased(square).value == pytest.approx(2)
    assert isoscore_unbiased(square, torch.arange(4)).value == pytest.approx(2)


def test_the_sum_of_fourth_powers_is_known_by_hand():
    assert moments_of(torch.tensor([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]])).fourth == pytest.approx(164)


def test_a_spread_far_smaller_than_the_mean_is_kept():
    x = points(2 * CHUNK_ROWS + 9, 3)
    assert isoscore_unbiased(x + 1e6).value == pytest.approx(isoscore_unbiased(x).value, rel=1e-7)


def test_a_mean_that_drifts_between_chunks_is_kept_apart_from_the_fourth_powers():
    x = points(3 * CHUNK_ROWS, 4) + 1000 * torch.arange(3.0).repeat_interleave(CHUNK_ROWS)[:, None]
    fourth = float((x - x.mean(0)).square().sum(1).square().sum())
    assert moments_of(x).fourth == pytest.approx(fourth, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
@pytest.mark.parametrize("shape", [(60, 8), (6, 8)])
def test_float32_points_of_extreme_scale_score_as_the_same_points_at_scale_one(scale, shape):
    x = points(*shape, torch.float32)
    assert isoscore_unbiased(x * scale).value == pytest.approx(isoscore_unbiased(x).value, rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(60, 8), (6, 8)])
def test_half_precision_scores_as_float64(dtype, shape):
    x = points(*shape).to(dtype)
    assert isoscore_unbiased(x).value == pytest.approx(isoscore_unbiased(x.double()).value, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-300, 1e-100, 1e-72, 1e100, 1e300])
@pytest.mark.parametrize("shape", [(60, 8), (6, 8)])
def test_points_score_the_same_at_every_scale_of_float64(scale, shape):
    x = points(*shape)
    expected = pytest.approx(isoscore_unbiased(x).value, rel=1e-9)
    assert isoscore_unbiased(x * scale).value == expected
    assert isoscore_unbiased(x * scale, torch.arange(len(x))).value == expected


def test_moments_whose_fourth_powers_leave_float64_are_told_so():
    x = points(60, 8)
    too_large, too_small = (isoscore_unbiased_from_moments(moments_of(x * scale)) for scale in (1e100, 1e-100))
    assert too_large.reason == "The fourth powers of the points are too large for float64: scale the points down."
    assert too_small.reason == "The fourth powers of the points are too small for float64: scale the points up."
    smaller = isoscore_unbiased_from_moments(moments_of(x * 1e-72))
    assert smaller.value == pytest.approx(isoscore_unbiased(x).value, rel=1e-9)


@pytest.mark.parametrize(("n", "are"), [(0, "are"), (1, "is"), (2, "are"), (3, "are")])
@pytest.mark.parametrize("d", [2, 9])
def test_fewer_than_four_points_have_no_score(n, are, d):
    assert isoscore_unbiased(points(n, d)).reason == (
        f"The bias-corrected IsoScore needs at least 4 points; there {are} {n}."
    )


@pytest.mark.parametrize("d", [0, 1])
def test_fewer_than_two_dimensions_have_no_score(d):
    assert isoscore_unbiased(points(9, d)).reason == (
        f"The bias-corrected IsoScore needs at least 2 dimensions; {there_are(d)}."
    )


@pytest.mark.parametrize("shape", [(50, 3), (5, 30)])
def test_equal_points_have_no_score(shape):
    assert isoscore_unbiased(torch.full(shape, 0.1)).reason == "The covariance is zero: all points are equal."


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("shape", [(50, 3), (5, 30)])
def test_points_that_are_not_finite_have_no_score(bad, shape):
    x = torch.zeros(shape)
    x[1, 1] = bad
    assert isoscore_unbiased(x).reason == NOT_FINITE


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(50, 3), (5, 30)])
def test_points_equal_but_for_one_have_no_score(dtype, shape):
    x = torch.full(shape, 0.1, dtype=dtype)
    x[2] = 7.3
    assert isoscore_unbiased(x).reason == CANCELLED


def test_an_estimate_below_zero_has_no_score():
    # Differences of any two pairs are orthogonal, so tr(S S) is estimated as 0.
    assert isoscore_unbiased(torch.eye(5)).reason == CANCELLED


def test_duplicates_zero_rows_and_constant_dimensions_are_points_like_others():
    x = points(20, 6)
    x[3:9] = x[0]
    x[9:12] = 0
    x[:, 2] = 4
    assert isoscore_unbiased(x).value == pytest.approx(isoscore_unbiased(x, torch.arange(20)).value, rel=1e-10)


def test_groups_of_one_row_are_no_groups_and_their_numbers_do_not_matter():
    x = points(9, 4)
    plain = pytest.approx(isoscore_unbiased(x).value, rel=1e-10)
    assert isoscore_unbiased(x, torch.arange(9) * 7 - 20).value == plain
    assert isoscore_unbiased(x, torch.arange(9.0) / 3).value == plain


def test_rows_repeated_within_their_group_add_nothing():
    x = points(9, 4)
    repeated = isoscore_unbiased(x.repeat_interleave(3, 0), torch.arange(9).repeat_interleave(3))
    assert repeated.value == pytest.approx(isoscore_unbiased(x).value, rel=1e-10)


def test_points_of_three_groups_have_no_score():
    assert isoscore_unbiased(points(9, 4), torch.arange(9) % 3).reason == (
        "The bias-corrected IsoScore needs at least 4 groups; there are 3."
    )


@pytest.mark.parametrize("shape", [(8,), (9, 1)])
def test_groups_that_are_not_of_the_points_are_refused(shape):
    with pytest.raises(ValueError, match=r"Expected groups \[9\], one of each point, got \[\d.*\]: number the points'"):
        isoscore_unbiased(points(9, 4), torch.zeros(shape))


def test_points_that_are_not_a_cloud_are_refused():
    with pytest.raises(ValueError, match=r"floating tensor \[n, d\], got \[9, 4\] of torch.int64"):
        isoscore_unbiased(torch.ones(9, 4, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"floating tensor \[n, 4\], got \[0, 3\] of torch.float32"):
        FourthMoments(4).update(torch.ones(0, 3))


def test_merge_refuses_moments_of_another_space():
    with pytest.raises(ValueError, match="Expected moments of 2 dimensions, got 3: merge only clouds of one"):
        FourthMoments(2).merge(FourthMoments(3))


def test_moments_saved_and_loaded_go_on_as_if_never_saved():
    x = points(12, 3)
    saved = moments_of(x[:5]).state()
    loaded = FourthMoments.from_state(saved)
    loaded.update(x[5:])
    assert loaded.fourth == pytest.approx(moments_of(x).fourth, rel=1e-12)
    assert isoscore_unbiased_from_moments(loaded).value == pytest.approx(isoscore_unbiased(x).value, rel=1e-12)
    assert float(saved["fourth"]) == pytest.approx(moments_of(x[:5]).fourth)
