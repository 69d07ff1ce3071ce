import pytest
import torch

from isotropy.activation import OUTLIER_RULES, activation_profile
from isotropy.spectrum import Moments


def profile_of(mean, std):
    """Two points, mean ± std / sqrt(2), have this mean and this unbiased standard deviation."""
    moments = Moments(len(mean))
    moments.update(torch.stack([mean - std / 2**0.5, mean + std / 2**0.5]))
    return activation_profile(moments)


def flagged(profile, rule):
    return profile.outliers[rule].nonzero().flatten().tolist()


def test_mean_and_standard_deviation_are_given_by_dimension():
    mean, std = torch.tensor([1.0, -2.0]).double(), torch.tensor([3.0, 0.0]).double()
    profile = profile_of(mean, std)
    torch.testing.assert_close(profile.mean, mean)
    torch.testing.assert_close(profile.std, std)


def test_every_rule_is_named_and_described():
    profile = profile_of(torch.zeros(3), torch.ones(3))
    assert list(profile.outliers) == list(OUTLIER_RULES)


def test_an_unusual_mean_is_flagged_on_either_side():
    mean = torch.linspace(-0.1, 0.1, 100).double()
    mean[7], mean[42] = 5, -5
    profile = profile_of(mean, torch.ones(100).double())
    assert flagged(profile, "mean_3sd") == flagged(profile, "mean_mad") == [7, 42]
    assert flagged(profile, "std_3sd") == flagged(profile, "variance_5x") == flagged(profile, "std_mad") == []


def test_an_unusually_large_standard_deviation_is_flagged_and_a_small_one_is_not():
    std = torch.linspace(0.9, 1.1, 100).double()
    std[7], std[42] = 5, 0
    profile = profile_of(torch.zeros(100).double(), std)
    assert flagged(profile, "std_3sd") == flagged(profile, "std_mad") == flagged(profile, "variance_5x") == [7]
    assert flagged(profile, "mean_3sd") == flagged(profile, "mean_mad") == []


def test_a_variance_of_exactly_five_times_the_average_is_an_outlier():
    variance = torch.tensor([5.0, *[0.0] * 4]).double()
    assert flagged(profile_of(torch.zeros(5).double(), variance.sqrt()), "variance_5x") == [0]


def test_two_outliers_that_hide_each_other_from_the_standard_deviation_are_seen_by_the_median():
    mean = torch.linspace(-0.1, 0.1, 12).double()
    mean[3], mean[8] = 5, 6
    profile = profile_of(mean, torch.ones(12).double())
    assert flagged(profile, "mean_3sd") == []
    assert flagged(profile, "mean_mad") == [3, 8]


def test_constant_points_have_no_outliers():
    profile = profile_of(torch.zeros(20), torch.zeros(20))
    assert not any(flags.any() for flags in profile.outliers.values())


def test_fewer_than_two_points_are_refused():
    with pytest.raises(ValueError, match="Expected moments of at least 2 points, got 0: update"):
        activation_profile(Moments(3))
