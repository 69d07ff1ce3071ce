import copy

import pytest
import torch

from isotropy.isoscore import isoscore_star
from isotropy.regularizers.istar import IStar


def points(n=50, d=4, dtype=torch.float32):
    return torch.randn(n, d, dtype=dtype, generator=torch.Generator().manual_seed(0)) * torch.arange(1, d + 1)


@pytest.mark.parametrize("lam", [-3.0, 0.0, 0.5])
def test_penalty_is_lam_times_one_minus_isoscore_star(lam):
    S_S = torch.diag(torch.arange(1.0, 5.0))
    istar = IStar(lam=lam, zeta=0.2)
    istar.set_shrinkage(S_S)
    assert float(istar(points())) == pytest.approx(lam * (1 - float(isoscore_star(points(), 0.2, S_S))))


def test_gradient_of_equal_points_is_zero():
    for zeta in (0.0, 0.2):
        istar = IStar(lam=1.0, zeta=zeta)
        istar.set_shrinkage(torch.eye(4))
        for x in (torch.ones(1, 4), torch.full((6, 4), 0.1)):
            x.requires_grad_()
            istar(x).backward()
            assert not x.grad.any()


def test_shrinkage_covariance_is_part_of_state():
    trained = torch.nn.Sequential(IStar(lam=1.0, zeta=0.2))
    trained[0].set_shrinkage(torch.diag(torch.arange(1.0, 5.0)).double())
    resumed = torch.nn.Sequential(IStar(lam=1.0, zeta=0.2))
    resumed.load_state_dict(trained.state_dict())
    assert torch.equal(resumed[0].shrinkage_covariance, torch.diag(torch.arange(1.0, 5.0)))
    assert torch.equal(resumed(points()), trained(points()))
    istar = IStar(lam=1.0, zeta=0.2)
    istar.set_shrinkage(torch.eye(4))
    istar.load_state_dict(IStar(lam=1.0, zeta=0.2).state_dict())
    assert istar.shrinkage_covariance.shape == (0, 0)
    with pytest.raises(RuntimeError, match="Missing key"):
        IStar(lam=1.0, zeta=0.2).load_state_dict({})
    assert repr(IStar(lam=-1.0, zeta=0.2)) == "IStar(lam=-1.0, zeta=0.2, across_processes=False)"
    istar = IStar(lam=1.0, zeta=0.2)
    istar.set_shrinkage(torch.eye(4))
    copied = copy.deepcopy(istar)
    copied.set_shrinkage(torch.eye(3))
    assert istar.shrinkage_covariance.shape == (4, 4)
    copied.load_state_dict(istar.state_dict())
    assert copied.shrinkage_covariance.shape == (4, 4)


def test_invalid_zeta_and_shrinkage_are_refused():
    with pytest.raises(ValueError, match=r"Expected zeta in \[0, 1\], got 75"):
        IStar(lam=1.0, zeta=75)
    with pytest.raises(ValueError, match=r"Expected a shrinkage covariance for zeta = 0.2, got none: call set_shrink"):
        IStar(lam=1.0, zeta=0.2)(points())
    istar = IStar(lam=1.0, zeta=0.2)
    istar.set_shrinkage(torch.eye(3))
    with pytest.raises(ValueError, match=r"shrinkage covariance \[4, 4\] like that of the points, got \[3, 3\]"):
        istar(points())


@pytest.mark.parametrize(
    ("S", "got"),
    [
        (torch.ones(2, 3), r"\[2, 3\] with 0 values not finite"),
        (torch.ones(4), r"\[4\] with 0 values not finite"),
        (torch.full((2, 2), float("nan")), r"\[2, 2\] with 4 values not finite"),
    ],
)
def test_invalid_shrinkage_covariance_is_refused(S, got):
    with pytest.raises(ValueError, match=rf"finite shrinkage covariance \[d, d\], got {got}: take it from Moments"):
        IStar(lam=1.0, zeta=0.2).set_shrinkage(S)
