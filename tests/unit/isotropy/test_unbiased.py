import math

import pytest
import torch

from isotropy.score import count_clause
from isotropy.spectrum import CHUNK_ROWS
from isotropy.unbiased import FourthMoments, isoscore_unbiased, isoscore_unbiased_from_moments
from tests.points import fourth_moments_of

NOT_FINITE = "The covariance is not finite: some points are NaN, infinite or too large."
CANCELLED = (
    "The estimate of tr(S)^2 or tr(S S) is not above zero: there are too few points, "
    "or one point has nearly all of the spread."
)


def points(n, d, dtype=torch.float64):
    return torch.randn(n, d, dtype=dtype, generator=torch.Generator().manual_seed(n * d))


def test_fourth_powers_beyond_float64_are_explained():
    x = points(60, 8)
    too_large, too_small = (isoscore_unbiased_from_moments(fourth_moments_of(x * scale)) for scale in (1e100, 1e-100))
    assert too_large.reason == "The fourth powers of the points are too large for float64: scale the points down."
    assert too_small.reason == "The fourth powers of the points are too small for float64: scale the points up."
    smaller = isoscore_unbiased_from_moments(fourth_moments_of(x * 1e-72))
    assert smaller.value == pytest.approx(isoscore_unbiased(x).value, rel=1e-9)


def test_small_spread_around_far_or_drifting_mean_is_accurate():
    x = points(2 * CHUNK_ROWS + 9, 3)
    assert isoscore_unbiased(x + 1e6).value == pytest.approx(isoscore_unbiased(x).value, rel=1e-7)
    x = points(3 * CHUNK_ROWS, 4) + 1000 * torch.arange(3.0).repeat_interleave(CHUNK_ROWS)[:, None]
    fourth = float((x - x.mean(0)).square().sum(1).square().sum())
    assert fourth_moments_of(x).fourth_sum == pytest.approx(fourth, rel=1e-12)


@pytest.mark.parametrize("shape", [(60, 8), (6, 8)])
def test_unbiased_score_does_not_depend_on_scale_or_precision(shape):
    x = points(*shape)
    expected = isoscore_unbiased(x).value
    for scale in (1e-300, 1e-100, 1e-72, 1e100, 1e300):
        assert isoscore_unbiased(x * scale).value == pytest.approx(expected, rel=1e-9)
        assert isoscore_unbiased(x * scale, torch.arange(len(x))).value == pytest.approx(expected, rel=1e-9)
    single = points(*shape, torch.float32)
    for scale in (1e-12, 1e12):
        assert isoscore_unbiased(single * scale).value == pytest.approx(isoscore_unbiased(single).value, rel=1e-4)
    for half in (x.half(), x.bfloat16()):
        assert isoscore_unbiased(half).value == pytest.approx(isoscore_unbiased(half.double()).value, rel=1e-9)


@pytest.mark.parametrize(
    ("n", "d", "reason"),
    [
        *((n, d, f"at least 4 points; {count_clause(n)}.") for n in (0, 1, 2, 3) for d in (2, 9)),
        *((9, d, f"at least 2 dimensions; {count_clause(d)}.") for d in (0, 1)),
    ],
)
def test_unbiased_score_needs_four_points_and_two_dimensions(n, d, reason):
    assert isoscore_unbiased(points(n, d)).reason == f"The bias-corrected IsoScore needs {reason}"
    grouped = isoscore_unbiased(points(9, 4), torch.arange(9) % 3)
    assert grouped.reason == "The bias-corrected IsoScore needs at least 4 groups; there are 3."


@pytest.mark.parametrize("shape", [(50, 3), (5, 30)])
def test_degenerate_points_have_no_score(shape):
    assert isoscore_unbiased(torch.full(shape, 0.1)).reason == "The covariance is zero: all points are equal."
    for bad in (math.nan, math.inf):
        x = torch.zeros(shape)
        x[1, 1] = bad
        assert isoscore_unbiased(x).reason == NOT_FINITE
    for dtype in (torch.float32, torch.float64):
        x = torch.full(shape, 0.1, dtype=dtype)
        x[2] = 7.3
        assert isoscore_unbiased(x).reason == CANCELLED
    # Differences of any two pairs are orthogonal, so tr(S S) is estimated as 0.
    assert isoscore_unbiased(torch.eye(5)).reason == CANCELLED


def test_duplicates_count_fully_and_groups_count_once():
    x = points(20, 6)
    x[3:9] = x[0]
    x[9:12] = 0
    x[:, 2] = 4
    assert isoscore_unbiased(x).value == pytest.approx(isoscore_unbiased(x, torch.arange(20)).value, rel=1e-10)
    x = points(9, 4)
    plain = pytest.approx(isoscore_unbiased(x).value, rel=1e-10)
    assert isoscore_unbiased(x, torch.arange(9) * 7 - 20).value == plain
    assert isoscore_unbiased(x, torch.arange(9.0) / 3).value == plain
    repeated = isoscore_unbiased(x.repeat_interleave(3, 0), torch.arange(9).repeat_interleave(3))
    assert repeated.value == pytest.approx(isoscore_unbiased(x).value, rel=1e-10)


@pytest.mark.parametrize("shape", [(8,), (9, 1)])
def test_mismatched_groups_are_refused(shape):
    with pytest.raises(ValueError, match=r"Expected groups \[9\], one of each point, got \[\d.*\]: number the points'"):
        isoscore_unbiased(points(9, 4), torch.zeros(shape))


def test_invalid_points_and_mismatched_moments_are_refused():
    with pytest.raises(ValueError, match=r"floating tensor \[n, d\], got \[9, 4\] of torch.int64"):
        isoscore_unbiased(torch.ones(9, 4, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"floating tensor \[n, 4\], got \[0, 3\] of torch.float32"):
        FourthMoments(4).update(torch.ones(0, 3))
    with pytest.raises(ValueError, match="Expected moments of 2 dimensions, got 3: merge only clouds of one"):
        FourthMoments(2).merge(FourthMoments(3))


def test_moments_continue_after_save_and_load():
    x = points(12, 3)
    saved = fourth_moments_of(x[:5]).state()
    loaded = FourthMoments.from_state(saved)
    loaded.update(x[5:])
    assert loaded.fourth_sum == pytest.approx(fourth_moments_of(x).fourth_sum, rel=1e-12)
    assert isoscore_unbiased_from_moments(loaded).value == pytest.approx(isoscore_unbiased(x).value, rel=1e-12)
    assert float(saved["fourth"]) == pytest.approx(fourth_moments_of(x[:5]).fourth_sum)
