import pytest
import torch

from isotropy.regularizers.spectrum_control import SpectrumControl
from tests.rounding import tolerance


def matrix(V=60, d=5):
    return torch.randn(V, d, generator=torch.Generator().manual_seed(0)) * torch.arange(1, d + 1)


@pytest.mark.parametrize(
    ("W", "penalty"),
    [
        (torch.eye(3), 0.0),
        (torch.ones(7, 3), 1.0),
        (torch.diag(torch.tensor([1.0, 1.0, 0.0])), 1 / 2),
        (torch.eye(2, 3), 1 / 2),
    ],
)
def test_matrices_of_known_singular_values_have_known_penalties(W, penalty):
    error = tolerance(sum(W.shape) + 20, torch.float32, 4)
    assert float(SpectrumControl(4.0)(W)) == pytest.approx(4 * penalty, rel=0, abs=error)


@pytest.mark.parametrize(("lam", "sign"), [(1.0, -1), (-1.0, 1)])
def test_descending_flattens_the_spectrum_for_positive_lam_and_steepens_it_for_negative(lam, sign):
    W = matrix().requires_grad_()
    SpectrumControl(lam)(W).backward()
    moved = torch.linalg.svdvals(W.detach() - W.grad)
    before = torch.linalg.svdvals(W.detach())
    assert sign * float(moved[0] / moved[-1] - before[0] / before[-1]) > 0


def test_a_mean_that_rows_share_is_penalised_and_a_matrix_of_zeros_as_one_direction():
    assert float(SpectrumControl(1.0)(matrix() + 20)) > 0.9 > float(SpectrumControl(1.0)(matrix()))
    W = torch.zeros(4, 3, requires_grad=True)
    penalty = SpectrumControl(2.0)(W)
    penalty.backward()
    assert float(penalty.detach()) == 2
    assert not W.grad.any()
    assert repr(SpectrumControl(1.0)) == "SpectrumControl(lam=1.0)"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_matrices_are_multiplied_in_float32(dtype):
    W = matrix().to(dtype).requires_grad_()
    penalty = SpectrumControl(1.0)(W)
    penalty.backward()
    assert penalty.dtype == torch.float32
    assert float(penalty.detach()) == pytest.approx(float(SpectrumControl(1.0)(W.detach().double())), rel=1e-5)
    assert W.grad.dtype == dtype


def test_autocast_changes_neither_the_penalty_nor_its_gradient():
    plain, cast = matrix().requires_grad_(), matrix().requires_grad_()
    SpectrumControl(1.0)(plain).backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        SpectrumControl(1.0)(cast).backward()
    torch.testing.assert_close(cast.grad, plain.grad)


def test_a_matrix_that_is_not_finite_or_has_one_column_is_refused():
    with pytest.raises(ValueError, match="Expected finite points, got NaN, infinity"):
        SpectrumControl(1.0)(torch.full((2, 2), float("inf")))
    with pytest.raises(ValueError, match="Expected points of at least 2 dimensions, got 1"):
        SpectrumControl(1.0)(torch.ones(4, 1))
