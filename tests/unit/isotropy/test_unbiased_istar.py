import pytest
import torch

from isotropy.regularizers.istar import IStar
from isotropy.regularizers.unbiased_istar import UnbiasedIStar


def points(n=24, d=4, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed)) * torch.arange(1, d + 1)


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


def test_invalid_points_are_refused():
    with pytest.raises(ValueError, match="Expected the points of at least 1 layer, got none: give a sequence"):
        UnbiasedIStar(1.0)([])
    with pytest.raises(ValueError, match="Expected points of at least 2 dimensions, got 1"):
        UnbiasedIStar(1.0)([torch.ones(5, 1)])
    with pytest.raises(ValueError, match="Expected finite points, got NaN or infinity"):
        UnbiasedIStar(1.0)([torch.full((5, 2), float("nan"))])
    assert repr(UnbiasedIStar(lam=-1.0)) == "UnbiasedIStar(lam=-1.0, across_processes=False)"
