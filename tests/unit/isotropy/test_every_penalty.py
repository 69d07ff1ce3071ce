"""Properties that the penalties of all regularizers share."""

import pytest
import torch

from isotropy.isoscore import isoscore_star
from isotropy.regularizers.cosreg import CosReg
from isotropy.regularizers.istar import IStar
from isotropy.regularizers.persistent_entropy import PersistentEntropy
from isotropy.regularizers.spectrum_control import SpectrumControl
from isotropy.regularizers.unbiased_istar import UnbiasedIStar
from isotropy.topology import bar_entropy, barcode
from isotropy.unbiased import isoscore_unbiased
from tests.rounding import likely, tolerance


def points(n=30, d=4):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(0)) * torch.arange(1, d + 1)


def shrunk(x):
    istar = IStar(lam=1.0, zeta=0.2)
    istar.set_shrinkage(torch.eye(4))
    return istar(x)


def unbiased(lam):
    return lambda x: UnbiasedIStar(lam)([x])


def entropy(lam):
    return PersistentEntropy(lam, bars="all")


def evenness(W):
    singular = torch.linalg.svdvals(W)
    return singular[-1] / singular[0]


RISING = {
    "istar": (lambda lam: IStar(lam, zeta=0.0), points(50), lambda x: isoscore_star(x, 0), 0.5),
    "unbiased": (unbiased, points(24) / 4, lambda x: isoscore_unbiased(x).value, 0.5),
    "unbiased, fewer rows than dimensions": (unbiased, points(12, 30) / 30, lambda x: isoscore_unbiased(x).value, 0.5),
    "cosreg": (CosReg, 1 + points(40) / torch.arange(1, 5), lambda x: -CosReg(1.0)(x), 1),
    "entropy": (entropy, points(), lambda x: bar_entropy(barcode(x)), 1),
    "spectrum": (SpectrumControl, points(60, 5), evenness, 1),
}


@pytest.mark.parametrize("lam", [1.0, -1.0])
@pytest.mark.parametrize("name", RISING)
def test_gradient_step_moves_score_by_sign_of_lam(name, lam):
    regularizer, start, score, rate = RISING[name]
    x = start.clone().requires_grad_()
    regularizer(lam)(x).backward()
    assert lam * float(score(x.detach() - rate * x.grad) - score(start)) > 0


ROUNDED = {
    "istar": (IStar(1.0, 0.0), points(50), tolerance(54, torch.float32)),
    "unbiased": (unbiased(1.0), points(24), tolerance(20, torch.float32)),
    "cosreg": (CosReg(1.0), 1 + points(20_000) / torch.arange(1, 5), likely(20_000, torch.float32)),
    "entropy": (entropy(1.0), points(), tolerance(60, torch.float32)),
    "spectrum": (SpectrumControl(1.0), points(60, 5), 1e-5),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ROUNDED)
def test_half_precision_has_float32_penalty_and_half_gradient(name, dtype):
    penalty_of, start, rel = ROUNDED[name]
    x = start.to(dtype).requires_grad_()
    penalty = penalty_of(x)
    penalty.backward()
    assert penalty.dtype == torch.float32
    assert float(penalty.detach()) == pytest.approx(float(penalty_of(x.detach().double())), rel=rel)
    assert x.grad.dtype == dtype
    assert x.grad.any()


@pytest.mark.parametrize(
    ("penalty_of", "x"), [(shrunk, points(50)), (unbiased(1.0), points(24)), (SpectrumControl(1.0), points(60, 5))]
)
def test_autocast_does_not_change_penalty_or_gradient(penalty_of, x):
    plain, cast = x.clone().requires_grad_(), x.clone().requires_grad_()
    expected = penalty_of(plain)
    expected.backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        penalty = penalty_of(cast)
        penalty.backward()
    torch.testing.assert_close(penalty, expected)
    torch.testing.assert_close(cast.grad, plain.grad)
