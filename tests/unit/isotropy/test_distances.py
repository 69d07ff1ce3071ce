import math

import torch

from isotropy.distances import CenteredPoints, center_of, distances
from tests.points import randn


def differences(x, y):
    return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")


def test_distances_stay_accurate_far_from_origin():
    center = torch.zeros(5).double()
    x, y = 1e6 + 1e-3 * randn(7, 5), torch.cat([1e6 + 1e-3 * randn(4, 5, 1), randn(3, 5, 2)])
    computed = distances(CenteredPoints.about(center, x), CenteredPoints.about(center, y))
    torch.testing.assert_close(computed, differences(x, y), rtol=1e-7, atol=0)
    x = 1e9 + randn(3, 5)
    located = CenteredPoints.about(center_of(x), torch.cat([x, x]))
    assert distances(located[:3], located[3:]).diagonal().tolist() == [0, 0, 0]
    x = randn(3, 5)
    located = CenteredPoints.about(center_of(x), x)
    computed = distances(located, located, torch.tensor([0, 2, 1]))
    assert (computed == math.inf).tolist() == [[True, False, False], [False, False, True], [False, True, False]]
    x = randn(1000, 5)
    x[0] = 1e12
    assert float(center_of(x).abs().max()) < 1
