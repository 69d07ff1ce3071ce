from contextlib import nullcontext

import pytest
import torch

from isotropy.evenness import evenness
from isotropy.regularizers.cosreg import CosReg
from isotropy.regularizers.istar import IStar
from isotropy.regularizers.spectrum_control import SpectrumControl
from isotropy.regularizers.unbiased_istar import UnbiasedIStar

LARGE = 2.0**12  # so that gradients do not leave the range of float16
MASK = torch.arange(60) % 3 > 0


def points(n=60, d=8, dtype=torch.float64):
    x = torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return (x * torch.arange(1, d + 1) + 3).to(dtype)


def shrunk_istar(**options):
    istar = IStar(lam=-1.5, zeta=0.3, **options)
    istar.set_shrinkage(torch.diag(torch.arange(1.0, 9.0)))
    return istar


PENALTIES = {
    "istar": shrunk_istar(),
    "cosreg": CosReg(-2.0),
    "unbiased": lambda x, mask=None: UnbiasedIStar(1.0)([x, x[:, :4]]),
    "spectrum": lambda x, mask=None: SpectrumControl(1.0)(x),
}


@pytest.mark.parametrize("name", ["istar", "cosreg"])
def test_masked_points_count_as_left_out(name):
    masked, selected = points().requires_grad_(), points()[MASK].requires_grad_()
    penalty, expected = PENALTIES[name](masked, MASK), PENALTIES[name](selected)
    penalty.backward()
    expected.backward()
    torch.testing.assert_close(penalty, expected)
    torch.testing.assert_close(masked.grad[MASK], selected.grad)
    assert not masked.grad[~MASK].any()
    with_nan = points().masked_fill(~MASK[:, None], torch.nan).requires_grad_()
    PENALTIES[name](with_nan, MASK).backward()
    assert torch.equal(with_nan.grad, masked.grad)


@pytest.mark.parametrize("only", [0, 59])
def test_mask_may_select_no_row_of_sample(only):
    x, mask = points(500), torch.zeros(500, dtype=torch.bool)
    mask[1:3], mask[only] = True, only == 0
    torch.testing.assert_close(evenness(x, mask), evenness(x[mask]))
    with pytest.raises(ValueError, match="Expected at least 1 point, got 0: skip batches in which every token"):
        evenness(x, torch.zeros_like(mask))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shift", [0, 300])
def test_bfloat16_products_are_near_float64(dtype, shift):
    """Rounding to bfloat16 moves a factor by 2^-9 of itself; in sums over points these errors mostly cancel."""
    x = (points(3000, 32) + shift).to(dtype).double()
    rounded, exact = x.to(dtype).requires_grad_(), x.clone().requires_grad_()
    penalty = IStar(LARGE, 0.0, product_dtype=torch.bfloat16)(rounded)
    expected = IStar(LARGE, 0.0)(exact)
    penalty.backward()
    expected.backward()
    assert float(penalty.detach()) == pytest.approx(float(expected.detach()), rel=2**-11)
    error = (rounded.grad.double() - exact.grad).norm() / exact.grad.norm()
    assert error < 2**-8


def test_float32_products_stay_float32():
    x = points(3000, 32).float()
    expected = float(IStar(1.0, 0.0)(x.double()))
    assert float(IStar(1.0, 0.0)(x)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", PENALTIES)
def test_accelerator_is_never_waited_for(monkeypatch, name, dtype):
    """A tensor on the meta device has no values, so reading one, or its number of nonzeros, is an error."""
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # the meta device has none
    penalty_of = shrunk_istar().to("meta") if name == "istar" else PENALTIES[name]
    x = points(dtype=dtype).to("meta").requires_grad_()
    penalty = penalty_of(x, MASK.to("meta"))
    penalty.backward()
    assert (penalty.dtype, x.grad.dtype, x.grad.shape) == (torch.float32, dtype, x.shape)
    with pytest.raises(RuntimeError, match="meta"):
        bool(penalty)


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA GPU here")


@needs_gpu
@pytest.mark.parametrize("name", PENALTIES)
def test_gpu_has_same_penalty_and_gradient(name):
    on_cpu, on_gpu = points(300).float().requires_grad_(), points(300).float().cuda().requires_grad_()
    gpu_penalty = shrunk_istar().cuda() if name == "istar" else PENALTIES[name]
    mask = torch.arange(300) % 3 > 0
    with torch.cuda.device(on_gpu.device):
        torch.cuda.set_sync_debug_mode("error")
        try:
            penalty = gpu_penalty(on_gpu, mask.to("cuda", non_blocking=True))
            penalty.backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    expected = PENALTIES[name](on_cpu, mask)
    expected.backward()
    torch.testing.assert_close(penalty.cpu(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(on_gpu.grad.cpu(), on_cpu.grad, rtol=1e-4, atol=1e-6)


@needs_gpu
def test_gpu_multiplies_half_precision_as_cpu_rounds_it():
    x = points(3000, 32).bfloat16()
    on_cpu, on_gpu = x.clone().requires_grad_(), x.cuda().requires_grad_()
    expected, penalty = IStar(1.0, 0.0, product_dtype=torch.bfloat16)(on_cpu), IStar(1.0, 0.0)(on_gpu)
    expected.backward()
    penalty.backward()
    torch.testing.assert_close(penalty.cpu(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(on_gpu.grad.cpu(), on_cpu.grad, rtol=2**-7, atol=1e-6)


@needs_gpu
def test_gpu_returns_nan_instead_of_error():
    assert IStar(1.0, 0.0)(torch.full((4, 3), torch.nan, device="cuda")).isnan()
