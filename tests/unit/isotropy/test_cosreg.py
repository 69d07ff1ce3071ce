import pytest
import torch

from isotropy.regularizers.cosreg import CosReg
from tests.rounding import tolerance

ROUNDINGS = 30  # an upper bound for unit rows, their sum over at most ten, and its square


def points(n=40, d=4):
    return 1 + torch.randn(n, d, generator=torch.Generator().manual_seed(0))


def test_zero_rows_are_left_out_and_get_no_gradient():
    x = torch.cat([points(), torch.zeros(3, 4)]).requires_grad_()
    penalty = CosReg(1.0)(x)
    penalty.backward()
    assert float(penalty.detach()) == pytest.approx(float(CosReg(1.0)(points())))
    assert x.grad[:-3].any(dim=1).all()
    assert not x.grad[-3:].any()


@pytest.mark.parametrize("x", [torch.empty(0, 3), torch.zeros(4, 3), torch.tensor([[1.0, 2.0, 3.0]])])
def test_penalty_of_fewer_than_two_directions_is_zero(x):
    x = x.clone().requires_grad_()
    penalty = CosReg(1.0)(x)
    penalty.backward()
    assert float(penalty.detach()) == pytest.approx(0, abs=tolerance(ROUNDINGS, torch.float32))
    assert torch.allclose(x.grad, torch.zeros_like(x), atol=tolerance(ROUNDINGS, torch.float32))


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_penalty_does_not_depend_on_scale(scale):
    expected = pytest.approx(float(CosReg(1.0)(points())), rel=tolerance(50, torch.float32))
    assert float(CosReg(1.0)(points() * scale)) == expected


def test_invalid_points_are_refused_and_state_is_empty():
    with pytest.raises(ValueError, match="Expected finite points, got NaN or infinity: lower the learning rate"):
        CosReg(1.0)(torch.full((2, 2), float("nan")))
    with pytest.raises(ValueError, match=r"Expected points as a floating tensor \[n, d\], got \[3\]"):
        CosReg(1.0)(torch.ones(3))
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), CosReg(1.0))
    model.load_state_dict(model.state_dict())
    assert set(model.state_dict()) == {"0.weight", "0.bias"}
    assert repr(CosReg(1.0)) == "CosReg(lam=1.0, across_processes=False)"
