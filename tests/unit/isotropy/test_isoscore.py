import math

import pytest
import torch

from isotropy.isoscore import (
    ShrinkageCurve,
    isoscore,
    isoscore_from_covariance,
    isoscore_star,
    participation_ratio,
    shrink_ratio,
)
from isotropy.score import Score, there_are
from isotropy.spectrum import CHUNK_ROWS, scaled_identity, shrink
from isotropy.unbiased import FourthMoments, isoscore_unbiased, isoscore_unbiased_from_moments
from tests.points import fourth_moments_of

NAN = float("nan")
CROSS = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]])


def random_points(n, d, dtype=torch.float32):
    return torch.randn(n, d, dtype=dtype, generator=torch.Generator().manual_seed(n * d))


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
def test_isoscore_does_not_depend_on_scale(scale):
    x = random_points(100, 8)
    assert isoscore(x * scale).value == pytest.approx(isoscore(x).value, rel=1e-5)
    assert isoscore(x[:5] * scale).value == pytest.approx(isoscore(x[:5]).value, rel=1e-5)
    assert float(isoscore_star(x * scale, 0)) == pytest.approx(isoscore(x).value, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_isoscore_accepts_half_precision(dtype):
    x = random_points(100, 8).to(dtype)
    assert isoscore(x).value == pytest.approx(isoscore(x.double()).value, rel=1e-5)


@pytest.mark.parametrize("size", [0, 1])
def test_isoscore_needs_two_points_and_two_dimensions(size):
    assert isoscore(torch.ones(size, 3)).reason == f"IsoScore needs at least 2 points; {there_are(size)}."
    assert isoscore(random_points(9, size)).reason == f"IsoScore needs at least 2 dimensions; {there_are(size)}."
    assert participation_ratio(torch.full((1, 1), 7.0)).value == 1


NOT_FINITE = "The covariance is not finite: some points are NaN, infinite or too large."


@pytest.mark.parametrize("shape", [(3, 50), (50, 3)])
def test_isoscore_is_undefined_for_equal_or_nonfinite_points(shape):
    equal = isoscore(torch.full(shape, 0.1))
    assert equal.value is None
    assert equal.reason == "The covariance is zero: all points are equal, or there are fewer than two."
    for bad in (NAN, math.inf):
        x = torch.zeros(shape)
        x[1, 1] = bad
        assert isoscore(x).reason == NOT_FINITE
    assert isoscore(random_points(50, 3) * 1e30).reason == NOT_FINITE
    assert isoscore(random_points(50, 3).double() * 1e30).value is not None


@pytest.mark.parametrize("S", [[[1.0, 0.0], [0.0, -1.0]], [[1.0, 2.0], [2.0, 1.0]]])
def test_matrix_with_negative_eigenvalue_is_not_scored(S):
    score = isoscore_from_covariance(torch.tensor(S))
    assert score.reason == "The matrix is not a covariance: it has a negative eigenvalue."


@pytest.mark.parametrize("measure", [isoscore_from_covariance, participation_ratio])
def test_points_in_place_of_covariance_are_refused(measure):
    with pytest.raises(ValueError, match=r"Expected a covariance \[d, d\], got \[100, 8\]: for points use"):
        measure(random_points(100, 8))


@pytest.mark.parametrize("zeta", [0, 0.2])
@pytest.mark.parametrize(
    "x",
    [torch.full((1, 3), 0.1), torch.full((9, 3), 0.1), torch.zeros(4, 3), torch.eye(3)[:2],
     random_points(5, 3) * 1e-18, random_points(5, 3) * 1e-25, random_points(5, 3).half()],
    ids=["one point", "equal points", "zeros", "two points", "tiny", "underflowing", "float16"],
)  # fmt: skip
def test_isoscore_star_has_finite_value_and_gradient(x, zeta):
    points = x.clone().requires_grad_()
    score = isoscore_star(points, zeta, scaled_identity(torch.eye(3)))
    score.backward()
    assert 0 <= float(score.detach()) <= 1
    assert points.grad.isfinite().all()


def test_isoscore_star_without_spread_is_zero_or_score_of_target():
    assert float(isoscore_star(torch.full((9, 3), 0.1), 0)) == 0
    S_S = torch.diag(torch.tensor([1.0, 2.0, 3.0]))
    assert float(isoscore_star(torch.full((9, 3), 0.1), 0.2, S_S)) == pytest.approx(11 / 14)


@pytest.mark.parametrize("seed", range(20))
def test_isoscore_star_clamps_value_but_not_gradient(seed):
    # On a line the score is 0 up to rounding, below it for some seeds, where clamp() would stop the gradient.
    along, direction = torch.randn(2, 7, generator=torch.Generator().manual_seed(seed))
    line = torch.outer(along, direction).requires_grad_()
    score = isoscore_star(line, 0)
    score.backward()
    assert 0 <= float(score.detach()) < 1e-6
    assert line.grad.any()


@pytest.mark.parametrize("bad", [NAN, math.inf, 1e30])
def test_isoscore_star_refuses_nonfinite_points(bad):
    with pytest.raises(ValueError, match=r"finite points, got NaN, infinity or squares beyond torch\.float32: lower"):
        isoscore_star(torch.tensor([[0.0, 1.0], [bad, 0.0]]), 0)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((torch.ones(5, 1), 0), "Expected points of at least 2 dimensions, got 1: isotropy compares"),
        ((CROSS, 0.2), r"Expected a shrinkage covariance \[2, 2\] for zeta = 0.2, got none"),
        ((CROSS, 0.2, torch.eye(3)), r"shrinkage covariance \[2, 2\] like that of the points, got \[3, 3\]"),
        ((CROSS, 2, torch.eye(2)), r"Expected zeta in \[0, 1\], got 2: 0 is no shrinkage"),
    ],
)
def test_isoscore_star_refuses_invalid_arguments(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        isoscore_star(*arguments)
    with pytest.raises(ValueError, match=r"floating tensor \[n, d\], got \[4, 2\] of torch.int64"):
        isoscore(CROSS.long())


def test_zeta_curve_matches_isoscore_star_at_any_scale():
    S_X, S_S = torch.cov(random_points(9, 4, torch.float64).T), torch.diag(torch.arange(1.0, 5.0).double())
    zetas = torch.linspace(0, 1, 101)
    expected = [isoscore_from_covariance(shrink(S_X, S_S, float(zeta))).value for zeta in zetas.double()]
    curve = ShrinkageCurve.from_covariances(S_X, S_S).isoscore_star(zetas)
    assert curve.dtype == torch.float64
    assert curve.tolist() == pytest.approx(expected, rel=1e-12)
    S_X, S_S = torch.diag(torch.tensor([1.0, 3.0])).double(), torch.eye(2).double()
    zetas = torch.tensor([0.0, 0.5, 1.0])
    expected = ShrinkageCurve.from_covariances(S_X, S_S).isoscore_star(zetas)
    torch.testing.assert_close(ShrinkageCurve.from_covariances(S_X * 1e200, S_S * 1e200).isoscore_star(zetas), expected)


def test_zeta_curve_is_nan_only_for_zero_covariance():
    zero, zetas = torch.zeros(3, 3), torch.tensor([0.0, 0.1, 1.0])
    curve = ShrinkageCurve.from_covariances(zero, torch.eye(3)).isoscore_star(zetas)
    assert curve[0].isnan()
    assert curve[1:].tolist() == pytest.approx([1, 1])
    assert ShrinkageCurve.from_covariances(zero, zero).isoscore_star(zetas[1:2]).isnan()
    with pytest.raises(ValueError, match=r"Expected zeta in \[0, 1\], got 1.5"):
        ShrinkageCurve.from_covariances(torch.eye(2), torch.eye(2)).isoscore_star(torch.tensor([0.5, 1.5]))
    for p, q in ((2, 3), (1, 1)):
        with pytest.raises(ValueError, match=rf"one shape, at least \[2, 2\], got \[{p}, {p}\] and \[{q}, {q}\]"):
            ShrinkageCurve.from_covariances(torch.eye(p), torch.eye(q))
    with pytest.raises(ValueError, match=r"Expected a covariance \[d, d\], got \[4, 2\]"):
        ShrinkageCurve.from_covariances(CROSS, torch.eye(2))


@pytest.mark.parametrize("zeta", [0, 0.2, 1])
def test_shrunk_ratio_matches_ratio_of_shrunk_covariance(zeta):
    S = torch.diag(torch.tensor([5.0, 1, 0.5, 0], dtype=torch.float64))
    expected = participation_ratio(shrink(S, scaled_identity(S), zeta)).value
    assert shrink_ratio(participation_ratio(S), 4, zeta).value == pytest.approx(expected, rel=1e-14)
    assert shrink_ratio(participation_ratio(0 * S), 4, zeta) == participation_ratio(0 * S)


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
    single = points(*shape, torch.float32)
    for scale in (1e-12, 1e12):
        assert isoscore_unbiased(single * scale).value == pytest.approx(isoscore_unbiased(single).value, rel=1e-4)
    for half in (x.half(), x.bfloat16()):
        assert isoscore_unbiased(half).value == pytest.approx(isoscore_unbiased(half.double()).value, rel=1e-9)


@pytest.mark.parametrize(
    ("n", "d", "reason"),
    [
        *((n, d, f"at least 4 points; {there_are(n)}.") for n in (0, 1, 2, 3) for d in (2, 9)),
        *((9, d, f"at least 2 dimensions; {there_are(d)}.") for d in (0, 1)),
    ],
)
def test_unbiased_score_needs_four_points_and_two_dimensions(n, d, reason):
    assert isoscore_unbiased(points(n, d)).reason == f"The bias-corrected IsoScore needs {reason}"


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


def test_score_is_clamped_float_or_undefined_with_reason():
    assert Score.clipped(0.5, 0, 1) == Score(0.5, None)
    # Rounding moved it out, or the end of its range is an int.
    assert [Score.clipped(value, 0, 1).value for value in (1 + 1e-16, -1e-16)] == [1, 0]
    assert isinstance(Score.clipped(1.5, 0, 1).value, float)
    reason = "The value is not a number: its inputs are not finite, or too large."
    assert Score.clipped(float("nan"), 0, 1) == Score.undefined(reason) == Score(None, reason)
    assert [there_are(n) for n in (0, 1, 2)] == ["there are 0", "there is 1", "there are 2"]
