import pytest
import torch

from isotropy.regularizers.spectrum_control import SpectrumControl


def matrix(V=60, d=5):
    return torch.randn(V, d, generator=torch.Generator().manual_seed(0)) * torch.arange(1, d + 1)


def test_common_mean_and_zero_matrix_are_penalized():
    assert float(SpectrumControl(1.0)(matrix() + 20)) > 0.9 > float(SpectrumControl(1.0)(matrix()))
    W = torch.zeros(4, 3, requires_grad=True)
    penalty = SpectrumControl(2.0)(W)
    penalty.backward()
    assert float(penalty.detach()) == 2
    assert not W.grad.any()
    assert repr(SpectrumControl(1.0)) == "SpectrumControl(lam=1.0)"


def test_nonfinite_or_single_column_matrix_is_refused():
    with pytest.raises(ValueError, match="Expected finite points, got NaN, infinity"):
        SpectrumControl(1.0)(torch.full((2, 2), float("inf")))
    with pytest.raises(ValueError, match="Expected points of at least 2 dimensions, got 1"):
        SpectrumControl(1.0)(torch.ones(4, 1))
