import math

import pytest
import torch

from isotropy.activation import activation_profile
from isotropy.catalog import OUTLIER_RULES
from isotropy.spectrum import Moments

NOT_FINITE = "The activation profile is not finite: some points are NaN, infinite or too large."


def profile_of(mean, std):
    moments = Moments(len(mean))
    moments.update(torch.stack([mean - std / 2**0.5, mean + std / 2**0.5]))
    return activation_profile(moments)


def flagged(profile, rule):
    return profile.outliers[rule].nonzero().flatten().tolist()


def test_profile_gives_mean_std_and_outliers_by_dimension():
    mean, std = torch.tensor([1.0, -2.0]).double(), torch.tensor([3.0, 0.0]).double()
    profile = profile_of(mean, std)
    torch.testing.assert_close(profile.mean, mean)
    torch.testing.assert_close(profile.std, std)
    profile = profile_of(torch.zeros(3), torch.ones(3))
    assert list(profile.outliers) == list(OUTLIER_RULES)
    profile = profile_of(torch.zeros(20), torch.zeros(20))
    assert not any(flags.any() for flags in profile.outliers.values())
    variance = torch.tensor([5.0, *[0.0] * 4]).double()
    assert flagged(profile_of(torch.zeros(5).double(), variance.sqrt()), "variance_5x") == [0]
    mean, std = torch.linspace(-0.1, 0.1, 100).double(), torch.linspace(0.9, 1.1, 100).double()
    mean[7], std[7], std[42] = 5, 5, 5
    assert profile_of(mean, std).score.value == 2


@pytest.mark.parametrize(
    ("x", "reason"),
    [
        (torch.ones(0, 3), "The activation profile needs at least 2 points; there are 0."),
        (torch.ones(1, 3), "The activation profile needs at least 2 points; there is 1."),
        (torch.tensor([[1.0, math.nan], [0.0, 0.0]]), NOT_FINITE),
        (torch.tensor([[1.0, math.inf], [0.0, 0.0]]), NOT_FINITE),
    ],
)
def test_profile_of_few_or_nonfinite_points_is_undefined(x, reason):
    moments = Moments(x.shape[1])
    moments.update(x)
    profile = activation_profile(moments)
    assert (profile.score.value, profile.score.reason) == (None, reason)
    assert profile.mean.tolist() == profile.std.tolist() == []
    assert profile.outliers == {}
