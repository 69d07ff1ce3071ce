import math

import pytest
import torch

from isotropy.regularizers.persistent_entropy import PersistentEntropy
from isotropy.topology import barcode
from tests.rounding import tolerance

# For the entropy of 29 bars in 4 dimensions: distances, their sum, and a sum of logarithms.
ROUNDING = tolerance(60, torch.float32)


def on_a_line(*steps):
    return torch.tensor([0.0, *steps]).cumsum(0)[:, None].expand(-1, 2) / math.sqrt(2)


def points(n=30, d=4):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(0)) * torch.arange(1, d + 1)


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
