import copy
import math
from contextlib import nullcontext

import pytest
import torch

from isotropy.evenness import evenness
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


SHIFTED = 1 + points(40) / torch.arange(1, 5)
IDENTITY = torch.eye(4)


def shrunk(lam=1.0, zeta=0.2, S_S=IDENTITY):
    istar = IStar(lam, zeta)
    istar.set_shrinkage(S_S)
    return istar


def unbiased(lam):
    return lambda x: UnbiasedIStar(lam)([x])


def entropy(lam):
    return PersistentEntropy(lam, bars="all")


def inverse_condition_number(W):
    singular = torch.linalg.svdvals(W)
    return singular[-1] / singular[0]


RISING = {
    "istar": (lambda lam: IStar(lam, zeta=0.0), points(50), lambda x: isoscore_star(x, 0), 0.5),
    "unbiased": (unbiased, points(24) / 4, lambda x: isoscore_unbiased(x).value, 0.5),
    "unbiased, fewer rows than dimensions": (unbiased, points(12, 30) / 30, lambda x: isoscore_unbiased(x).value, 0.5),
    "cosreg": (CosReg, SHIFTED, lambda x: -CosReg(1.0)(x), 1),
    "entropy": (entropy, points(), lambda x: bar_entropy(barcode(x)), 1),
    "spectrum": (SpectrumControl, points(60, 5), inverse_condition_number, 1),
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
    ("penalty_of", "x"), [(shrunk(), points(50)), (unbiased(1.0), points(24)), (SpectrumControl(1.0), points(60, 5))]
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


@pytest.mark.parametrize("lam", [-3.0, 0.0, 0.5])
def test_penalty_is_lam_times_one_minus_isoscore_star(lam):
    S_S = torch.diag(torch.arange(1.0, 5.0))
    assert float(shrunk(lam, S_S=S_S)(points())) == pytest.approx(lam * (1 - float(isoscore_star(points(), 0.2, S_S))))


def test_gradient_of_equal_points_is_zero():
    for zeta in (0.0, 0.2):
        for x in (torch.ones(1, 4), torch.full((6, 4), 0.1)):
            x.requires_grad_()
            shrunk(zeta=zeta)(x).backward()
            assert not x.grad.any()


def test_shrinkage_covariance_is_part_of_state():
    trained = torch.nn.Sequential(shrunk(S_S=torch.diag(torch.arange(1.0, 5.0)).double()))
    resumed = torch.nn.Sequential(IStar(lam=1.0, zeta=0.2))
    resumed.load_state_dict(trained.state_dict())
    assert torch.equal(resumed[0].shrinkage_covariance, torch.diag(torch.arange(1.0, 5.0)))
    assert torch.equal(resumed(points()), trained(points()))
    istar = shrunk()
    istar.load_state_dict(IStar(lam=1.0, zeta=0.2).state_dict())
    assert istar.shrinkage_covariance.shape == (0, 0)
    with pytest.raises(RuntimeError, match="Missing key"):
        IStar(lam=1.0, zeta=0.2).load_state_dict({})
    assert repr(IStar(lam=-1.0, zeta=0.2)) == "IStar(lam=-1.0, zeta=0.2, across_processes=False)"
    istar = shrunk()
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
    with pytest.raises(ValueError, match=r"shrinkage covariance \[4, 4\] like that of the points, got \[3, 3\]"):
        shrunk(S_S=torch.eye(3))(points())


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


def test_unbiased_istar_of_few_rows_is_near_truth():
    spread = torch.linspace(0.2, 2, 96).sqrt()
    scores = {"unbiased": [], "plain": []}
    for seed in range(40):
        x = torch.randn(16, 96, generator=torch.Generator().manual_seed(seed)) * spread
        scores["unbiased"].append(1 - float(UnbiasedIStar(1.0)([x])))
        scores["plain"].append(1 - float(IStar(1.0, 0.0)(x)))
    truth = (float(spread.square().sum() ** 2 / spread.pow(4).sum()) - 1) / 95
    assert sum(scores["unbiased"]) / 40 == pytest.approx(truth, abs=0.05)
    assert sum(scores["plain"]) / 40 < 0.25 * truth


def test_penalty_of_isotropic_points_averages_to_zero():
    clouds = [torch.randn(8, 32, generator=torch.Generator().manual_seed(seed)) for seed in range(200)]
    penalties = torch.stack([UnbiasedIStar(1.0)([cloud]) for cloud in clouds])
    assert float(penalties.min()) < -0.2
    assert float(penalties.max()) > 0.2
    assert abs(float(penalties.mean())) < 0.06


@pytest.mark.parametrize("d", [4, 50])
def test_equidistant_points_have_minimum_penalty(d):
    x = torch.eye(4, d, dtype=torch.float64).requires_grad_()
    penalty = UnbiasedIStar(2.0)([x])
    penalty.backward()
    assert float(penalty.detach()) == pytest.approx(-2 * d / (d - 1), rel=1e-9)
    assert x.grad.isfinite().all()


@pytest.mark.parametrize(
    "x",
    [torch.empty(0, 4), torch.ones(1, 4), points(3), torch.full((6, 4), 0.1),
     torch.cat([torch.zeros(5, 4), torch.ones(1, 4)])],
    ids=["none", "one", "three", "equal", "all but one equal"],
)  # fmt: skip
def test_undefined_score_counts_as_zero_without_gradient(x):
    x = x.clone().requires_grad_()
    penalty = UnbiasedIStar(1.0)([x])
    penalty.backward()
    assert float(penalty.detach()) == 1
    assert not x.grad.any()


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_penalty_does_not_depend_on_scale_or_shift(scale):
    penalty = float(UnbiasedIStar(1.0)([points()]))
    assert float(UnbiasedIStar(1.0)([points() * scale])) == pytest.approx(penalty, rel=1e-5)
    assert float(UnbiasedIStar(1.0)([points().double() + 1e6])) == pytest.approx(penalty, rel=1e-6)
    expected = pytest.approx(float(CosReg(1.0)(SHIFTED)), rel=tolerance(50, torch.float32))
    assert float(CosReg(1.0)(SHIFTED * scale)) == expected


def test_invalid_points_are_refused():
    with pytest.raises(ValueError, match="Expected the points of at least 1 layer, got none: give a sequence"):
        UnbiasedIStar(1.0)([])
    with pytest.raises(ValueError, match="Expected points of at least 2 dimensions, got 1"):
        UnbiasedIStar(1.0)([torch.ones(5, 1)])
    with pytest.raises(ValueError, match="Expected finite points, got NaN or infinity"):
        UnbiasedIStar(1.0)([torch.full((5, 2), float("nan"))])
    assert repr(UnbiasedIStar(lam=-1.0)) == "UnbiasedIStar(lam=-1.0, across_processes=False)"


ROUNDINGS = 30  # an upper bound for unit rows, their sum over at most ten, and its square


def test_zero_rows_are_left_out_and_get_no_gradient():
    x = torch.cat([SHIFTED, torch.zeros(3, 4)]).requires_grad_()
    penalty = CosReg(1.0)(x)
    penalty.backward()
    assert float(penalty.detach()) == pytest.approx(float(CosReg(1.0)(SHIFTED)))
    assert x.grad[:-3].any(dim=1).all()
    assert not x.grad[-3:].any()


@pytest.mark.parametrize("x", [torch.empty(0, 3), torch.zeros(4, 3), torch.tensor([[1.0, 2.0, 3.0]])])
def test_penalty_of_fewer_than_two_directions_is_zero(x):
    x = x.clone().requires_grad_()
    penalty = CosReg(1.0)(x)
    penalty.backward()
    assert float(penalty.detach()) == pytest.approx(0, abs=tolerance(ROUNDINGS, torch.float32))
    assert torch.allclose(x.grad, torch.zeros_like(x), atol=tolerance(ROUNDINGS, torch.float32))


def test_invalid_points_are_refused_and_state_is_empty():
    with pytest.raises(ValueError, match="Expected finite points, got NaN or infinity: lower the learning rate"):
        CosReg(1.0)(torch.full((2, 2), float("nan")))
    with pytest.raises(ValueError, match=r"Expected points as a floating tensor \[n, d\], got \[3\]"):
        CosReg(1.0)(torch.ones(3))
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), CosReg(1.0))
    model.load_state_dict(model.state_dict())
    assert set(model.state_dict()) == {"0.weight", "0.bias"}
    assert repr(CosReg(1.0)) == "CosReg(lam=1.0, across_processes=False)"


# For the entropy of 29 bars in 4 dimensions: distances, their sum, and a sum of logarithms.
ROUNDING = tolerance(60, torch.float32)


def on_a_line(*steps):
    return torch.tensor([0.0, *steps]).cumsum(0)[:, None].expand(-1, 2) / math.sqrt(2)


def entropy_of(*lengths):
    return -sum(length / sum(lengths) * math.log(length / sum(lengths)) for length in lengths)


def test_single_prominent_bar_has_no_penalty():
    x = on_a_line(*[0.1] * 5, 10, *[0.1] * 5, 9, *[0.1] * 5, 8, *[0.1] * 5).clone().requires_grad_()
    penalty = PersistentEntropy(1.0)(x)
    penalty.backward()
    assert float(penalty.detach()) == 0
    assert not x.grad.any()


def test_bars_between_classes_do_not_count():
    labels = torch.tensor([0, 0, 0, 1, 1, 1])
    penalty = PersistentEntropy(1.0, bars="all")(on_a_line(1, 3, 50, 2, 2), labels)
    assert float(penalty) == pytest.approx(-entropy_of(1, 3) - math.log(2), rel=1e-5)
    entropy = PersistentEntropy(1.0, cluster_weight=0.1)
    assert float(entropy(points(), torch.zeros(30, dtype=torch.int64))) == float(entropy(points()))


@pytest.mark.parametrize("lam", [1.0, -1.0])
def test_cluster_term_shortens_other_bars_for_either_sign(lam):
    x = on_a_line(1, 1, 30, 1, 1, 1).clone().requires_grad_()  # one prominent bar, of entropy 0
    PersistentEntropy(lam, cluster_weight=0.5)(x).backward()
    assert float(barcode(x.detach() - 0.1 * x.grad)[:-1].mean()) < 1


DEGENERATE = {
    "none": torch.empty(0, 3), "one": torch.ones(1, 3), "two": points(2, 3), "two equal": torch.ones(2, 3),
    "three": points(3, 3), "five": points(5, 3), "all equal": torch.full((7, 3), 0.1),
    "duplicates": points(6, 3).repeat(2, 1), "at equal distances": torch.eye(3),
}  # fmt: skip


@pytest.mark.parametrize("bars", ["prominent", "all"])
@pytest.mark.parametrize("labeled", ["no labels", "one class", "classes of one", "two classes"])
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_batches_have_finite_penalty_and_gradient(name, labeled, bars):
    x = DEGENERATE[name].clone().requires_grad_()
    number = torch.arange(len(x))
    labels = {"no labels": None, "one class": number * 0, "classes of one": number, "two classes": number % 2}[labeled]
    penalty = PersistentEntropy(1.0, bars=bars, cluster_weight=0.5)(x, labels)
    penalty.backward()
    assert penalty.isfinite()
    assert x.grad.isfinite().all()
    if labeled == "classes of one" or name in {"none", "one", "two equal", "all equal"}:
        assert float(penalty.detach()) == 0
        assert not x.grad.any()


def test_two_points_have_entropy_0_and_duplicates_change_nothing():
    x = points(2, 3).requires_grad_()
    penalty = PersistentEntropy(1.0, bars="all")(x)
    penalty.backward()
    assert float(penalty.detach()) == 0
    assert not x.grad.any()
    x = points()
    doubled = PersistentEntropy(1.0)(torch.cat([x, x]))
    assert float(doubled) == pytest.approx(float(PersistentEntropy(1.0)(x)), rel=ROUNDING)


def test_invalid_arguments_are_refused_and_settings_are_printed():
    with pytest.raises(ValueError, match=r"Expected labels \[30\], one of each point, got \[29\]: number the classes"):
        PersistentEntropy(1.0)(points(), torch.zeros(29))
    with pytest.raises(ValueError, match="Expected finite points, got NaN or infinity"):
        PersistentEntropy(1.0)(torch.full((5, 2), float("nan")))
    with pytest.raises(ValueError, match="Expected bars to be one of prominent, all, got 'long': choose one"):
        PersistentEntropy(1.0, bars="long")
    for weight in (-1.0, float("nan")):
        with pytest.raises(ValueError, match=f"Expected a cluster weight of at least 0, got {weight}: 0 leaves"):
            PersistentEntropy(1.0, cluster_weight=weight)
    expected = "PersistentEntropy(lam=1.0, bars='all', cluster_weight=0.5, across_processes=False)"
    assert repr(PersistentEntropy(1.0, bars="all", cluster_weight=0.5)) == expected


LARGE = 2.0**12  # so that gradients do not leave the range of float16
MASK = torch.arange(60) % 3 > 0


def shifted_points(n=60, d=8, dtype=torch.float64):
    x = torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return (x * torch.arange(1, d + 1) + 3).to(dtype)


def shrunk_istar():
    return shrunk(-1.5, 0.3, torch.diag(torch.arange(1.0, 9.0)))


PENALTIES = {
    "istar": shrunk_istar(),
    "cosreg": CosReg(-2.0),
    "unbiased": lambda x, mask=None: UnbiasedIStar(1.0)([x, x[:, :4]]),
    "spectrum": lambda x, mask=None: SpectrumControl(1.0)(x),
}


@pytest.mark.parametrize("name", ["istar", "cosreg"])
def test_masked_points_count_as_left_out(name):
    masked, selected = shifted_points().requires_grad_(), shifted_points()[MASK].requires_grad_()
    penalty, expected = PENALTIES[name](masked, MASK), PENALTIES[name](selected)
    penalty.backward()
    expected.backward()
    torch.testing.assert_close(penalty, expected)
    torch.testing.assert_close(masked.grad[MASK], selected.grad)
    assert not masked.grad[~MASK].any()
    with_nan = shifted_points().masked_fill(~MASK[:, None], torch.nan).requires_grad_()
    PENALTIES[name](with_nan, MASK).backward()
    assert torch.equal(with_nan.grad, masked.grad)


@pytest.mark.parametrize("only", [0, 59])
def test_mask_may_select_no_row_of_sample(only):
    x, mask = shifted_points(500), torch.zeros(500, dtype=torch.bool)
    mask[1:3], mask[only] = True, only == 0
    torch.testing.assert_close(evenness(x, mask), evenness(x[mask]))
    with pytest.raises(ValueError, match="Expected at least 1 point, got 0: skip batches in which every token"):
        evenness(x, torch.zeros_like(mask))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shift", [0, 300])
def test_bfloat16_products_are_near_float64(dtype, shift):
    """Rounding to bfloat16 moves a factor by 2^-9 of itself; in sums over points these errors mostly cancel."""
    x = (shifted_points(3000, 32) + shift).to(dtype).double()
    rounded, exact = x.to(dtype).requires_grad_(), x.clone().requires_grad_()
    penalty = IStar(LARGE, 0.0, product_dtype=torch.bfloat16)(rounded)
    expected = IStar(LARGE, 0.0)(exact)
    penalty.backward()
    expected.backward()
    assert float(penalty.detach()) == pytest.approx(float(expected.detach()), rel=2**-11)
    error = (rounded.grad.double() - exact.grad).norm() / exact.grad.norm()
    assert error < 2**-8


def test_float32_products_stay_float32():
    x = shifted_points(3000, 32).float()
    expected = float(IStar(1.0, 0.0)(x.double()))
    assert float(IStar(1.0, 0.0)(x)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", PENALTIES)
def test_accelerator_is_never_waited_for(monkeypatch, name, dtype):
    """A tensor on the meta device has no values, so reading one, or its number of nonzeros, is an error."""
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # the meta device has none
    penalty_of = shrunk_istar().to("meta") if name == "istar" else PENALTIES[name]
    x = shifted_points(dtype=dtype).to("meta").requires_grad_()
    penalty = penalty_of(x, MASK.to("meta"))
    penalty.backward()
    assert (penalty.dtype, x.grad.dtype, x.grad.shape) == (torch.float32, dtype, x.shape)
    with pytest.raises(RuntimeError, match="meta"):
        bool(penalty)


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA GPU here")


@needs_gpu
@pytest.mark.parametrize("name", PENALTIES)
def test_gpu_has_same_penalty_and_gradient(name):
    on_cpu, on_gpu = shifted_points(300).float().requires_grad_(), shifted_points(300).float().cuda().requires_grad_()
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
    x = shifted_points(3000, 32).bfloat16()
    on_cpu, on_gpu = x.clone().requires_grad_(), x.cuda().requires_grad_()
    expected, penalty = IStar(1.0, 0.0, product_dtype=torch.bfloat16)(on_cpu), IStar(1.0, 0.0)(on_gpu)
    expected.backward()
    penalty.backward()
    torch.testing.assert_close(penalty.cpu(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(on_gpu.grad.cpu(), on_cpu.grad, rtol=2**-7, atol=1e-6)


@needs_gpu
def test_gpu_returns_nan_instead_of_error():
    assert IStar(1.0, 0.0)(torch.full((4, 3), torch.nan, device="cuda")).isnan()
