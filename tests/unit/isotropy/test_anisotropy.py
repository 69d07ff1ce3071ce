import math

import pytest
import torch

from isotropy.anisotropy import anisotropy, mean_share, second_moment
from isotropy.spectrum import eigenvalues
from tests.points import moments_of

# Centered at (3, 0), with variance 1 x 2/3 along x and 4 x 2/3 along y.
SHIFTED_CROSS = torch.tensor([[4.0, 0.0], [2.0, 0.0], [3.0, 2.0], [3.0, -2.0]])


def spectrum_of(moments, *, centered):
    return eigenvalues(moments.covariance() if centered else second_moment(moments))


def values(scores):
    return [score.value for score in scores]


def test_centered_and_equal_points_have_exact_mean_share():
    moments = moments_of(SHIFTED_CROSS)
    assert len(anisotropy(spectrum_of(moments, centered=True), 1)) == 1
    assert mean_share(moments_of(SHIFTED_CROSS - torch.tensor([3.0, 0.0]))).value == 0
    assert mean_share(moments_of(torch.full((5, 3), 0.1))).value == 1
    moments = moments_of(torch.tensor([[3.0, 4.0]]))
    assert values(anisotropy(spectrum_of(moments, centered=False), 2)) == pytest.approx([1, 0])
    assert values(anisotropy(spectrum_of(moments, centered=True), 2)) == [None, None]
    assert mean_share(moments).value == 1


@pytest.mark.parametrize("x", [torch.zeros(4, 2), torch.zeros(0, 2)])
def test_points_without_energy_are_undefined(x):
    reason = "The points have no energy: all are zero or, once centered, equal; or there are none."
    assert [score.reason for score in anisotropy(spectrum_of(moments_of(x), centered=False), 2)] == [reason, reason]
    assert mean_share(moments_of(x)).reason == reason


@pytest.mark.parametrize("centered", [True, False])
def test_nonfinite_points_are_undefined(centered):
    moments = moments_of(torch.tensor([[math.nan, 1.0], [0.0, 1.0]]))
    reason = "The moments are not finite: some points are NaN, infinite or too large."
    assert anisotropy(spectrum_of(moments, centered=centered), 1)[0].reason == reason
    assert mean_share(moments).reason == reason


@pytest.mark.parametrize("K", [0, 3])
def test_invalid_number_of_directions_is_refused(K):
    with pytest.raises(ValueError, match=f"Expected 1 <= K <= d = 2, got {K}: there are d directions"):
        anisotropy(spectrum_of(moments_of(SHIFTED_CROSS), centered=True), K)
