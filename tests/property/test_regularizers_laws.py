import pytest
import torch
from clouds import clouds, rotation, seeds
from hypothesis import given
from hypothesis import strategies as st

from isotropy.regularizers.cosreg import CosReg
from isotropy.regularizers.istar import IStar
from isotropy.regularizers.persistent_entropy import PersistentEntropy
from isotropy.regularizers.spectrum_control import SpectrumControl
from isotropy.regularizers.unbiased_istar import UnbiasedIStar

PENALTIES = {
    "istar": IStar(1.0, 0.0),
    "unbiased": lambda x: UnbiasedIStar(1.0)([x]),
    "cosreg": CosReg(1.0),
    "entropy": PersistentEntropy(1.0, bars="all"),
    "spectrum": SpectrumControl(1.0),
}
every_penalty = pytest.mark.parametrize("name", PENALTIES)


@every_penalty
@given(clouds(), seeds, st.floats(1e-3, 1e3))
def test_penalties_ignore_rotation_order_and_scale(name, x, seed, scale):
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    moved = x[rows] @ rotation(x.shape[1], seed) * scale
    assert float(PENALTIES[name](moved)) == pytest.approx(float(PENALTIES[name](x)), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", ["istar", "unbiased", "entropy"])
@given(clouds(), st.floats(-100, 100))
def test_istar_and_entropy_ignore_shift(name, x, shift):
    assert float(PENALTIES[name](x + shift)) == pytest.approx(float(PENALTIES[name](x)), rel=1e-6, abs=1e-6)


@every_penalty
@given(clouds())
def test_penalties_are_bounded_with_finite_gradients(name, x):
    n, d = x.shape
    ranges = {"istar": (0, 1), "unbiased": (-d / (d - 1), 1), "cosreg": (-1 / n, 1), "spectrum": (0, 1)}
    lowest, highest = (ranges | {"entropy": (-torch.tensor(n - 1.0).log().item(), 0)})[name]
    x.requires_grad_()
    penalty = PENALTIES[name](x)
    penalty.backward()
    assert lowest - 1e-9 <= float(penalty.detach()) <= highest + 1e-9
    assert x.grad.isfinite().all()
