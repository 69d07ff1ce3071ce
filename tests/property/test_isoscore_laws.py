import numpy as np
import pytest
import torch
from clouds import clouds, rotation, seeds, solved_clouds
from hypothesis import given
from hypothesis import strategies as st

from isotropy.cloud import read_cloud
from isotropy.isoscore import ShrinkageCurve, isoscore, isoscore_from_covariance, isoscore_star, participation_ratio
from isotropy.projection import projection
from isotropy.rows import Rows
from isotropy.sample_size import sample_size
from isotropy.spectrum import scaled_identity
from isotropy.unbiased import FourthMoments, isoscore_unbiased, isoscore_unbiased_from_moments
from tests.points import fourth_moments_of


@given(clouds())
def test_isoscore_is_bounded_and_rises_with_shrinkage(x):
    assert 0 <= isoscore(x).value <= 1
    S = torch.cov(x.T)
    assert isoscore(x).value == pytest.approx(isoscore_from_covariance(S).value, abs=1e-10)
    assert isoscore(x).value == pytest.approx(float(isoscore_star(x, 0)), abs=1e-10)
    S = torch.cov(x.T)
    curve = ShrinkageCurve.from_covariances(S, scaled_identity(S)).isoscore_star(torch.linspace(0, 1, 11))
    assert (curve.diff() >= -1e-12).all()
    assert float(curve[-1]) == pytest.approx(1)
    centered = x - x.mean(0)
    assert float((gradient(centered, 0) * centered).sum()) == pytest.approx(0, abs=1e-8)


@given(clouds(), seeds, st.floats(-1e3, 1e3), st.floats(1e-9, 1e9))
def test_isoscore_ignores_rotation_shift_scale_and_order(x, seed, shift, scale):
    expected, generator = isoscore(x).value, torch.Generator().manual_seed(seed)
    rows, columns = (torch.randperm(size, generator=generator) for size in x.shape)
    assert isoscore(x @ rotation(x.shape[1], seed)).value == pytest.approx(expected, abs=1e-10)
    assert isoscore(x + shift).value == pytest.approx(expected, abs=1e-9)
    assert isoscore(x * scale).value == pytest.approx(expected, abs=1e-10)
    assert isoscore(x[rows][:, columns]).value == pytest.approx(expected, abs=1e-10)


@given(clouds(min_d=2), seeds)
def test_points_on_line_score_zero(x, seed):
    line = x[:, :1] @ rotation(x.shape[1], seed)[:1]
    assert isoscore(line).value == pytest.approx(0, abs=1e-9)


@given(solved_clouds(equal=True))
def test_k_equal_eigenvalues_have_known_isoscore(solved):
    x, spectrum = solved
    k, d = int(spectrum.count_nonzero()), len(spectrum)
    assert isoscore(x).value == pytest.approx((k - 1) / (d - 1), abs=1e-10)


@pytest.mark.measure("participation_ratio")
@given(solved_clouds())
def test_known_spectrum_gives_participation_ratio_and_isoscore(solved):
    x, spectrum = solved
    pr = float(spectrum.sum() ** 2 / spectrum.square().sum())
    assert participation_ratio(torch.cov(x.T)).value == pytest.approx(pr, rel=1e-9)
    assert isoscore(x).value == pytest.approx((pr - 1) / (len(spectrum) - 1), abs=1e-9)


@given(clouds(), seeds)
def test_zeta_curve_ends_at_score_of_shrinkage_covariance(x, seed):
    d = x.shape[1]
    S_S = torch.cov(torch.randn(3 * d, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).T)
    ends = ShrinkageCurve.from_covariances(torch.cov(x.T), S_S).isoscore_star(torch.tensor([0.0, 1.0])).tolist()
    expected = [isoscore(x).value, isoscore_from_covariance(S_S).value]
    assert ends == pytest.approx(expected, abs=1e-9)
    assert [float(isoscore_star(x, zeta, S_S)) for zeta in (0, 1)] == pytest.approx(expected, abs=1e-9)


def gradient(x, zeta):
    points = x.clone().requires_grad_()
    isoscore_star(points, zeta, torch.eye(x.shape[1])).backward()
    return points.grad


@given(clouds(), st.floats(0, 1))
def test_gradient_keeps_mean(x, zeta):
    assert gradient(x, zeta).sum(0).tolist() == pytest.approx([0] * x.shape[1], abs=1e-8)


def approx_value(score):
    return pytest.approx(score.value, rel=1e-6, abs=1e-6) if score.value is not None else None


large_clouds = clouds(min_n=6, max_n=30)


@given(large_clouds, seeds, st.floats(1e-9, 1e9), st.floats(-100, 100))
def test_isoscore_unbiased_ignores_similarity_transforms(x, seed, scale, shift):
    assert isoscore_unbiased_from_moments(fourth_moments_of(x)).value == approx_value(isoscore_unbiased(x))
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
def test_line_has_unbiased_score_zero(x, seed):
    score = isoscore_unbiased(x[:, :1] @ rotation(x.shape[1], seed)[:1])
    assert score.value == pytest.approx(0, abs=1e-7)


@given(solved_clouds())
def test_projection_has_three_largest_variances(solved):
    points, spectrum = solved
    data = projection(read_cloud(Rows(points.numpy())))
    largest = [*spectrum[:3].tolist(), 0.0, 0.0][:3]
    variances = [np.var(data[axis], ddof=1) for axis in "xyz"]
    assert variances == pytest.approx(largest, rel=1e-3, abs=1e-9 * float(spectrum[0]))
    assert data["shares"] == pytest.approx([share / float(spectrum.sum()) for share in largest], abs=1e-9)


@given(clouds(max_n=80), seeds)
def test_curve_ends_at_isoscore_and_is_invariant(points, seed):
    data = sample_size(read_cloud(Rows(points.numpy())))
    assert data["isoscore"]["mean"][-1] == pytest.approx(isoscore(points).value, abs=1e-9)
    moved = sample_size(read_cloud(Rows((5 + 1e-3 * points @ rotation(points.shape[1], seed)).numpy())))
    assert moved["rows"] == data["rows"]
    curves, other_curves = ((line["isoscore"], *line["isoscore_star"]) for line in (data, moved))
    for curve, other_curve in zip(curves, other_curves, strict=True):
        assert other_curve["mean"] == pytest.approx(curve["mean"], abs=1e-6)
        assert all(0 <= value <= 1 for value in curve["mean"])
