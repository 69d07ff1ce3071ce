import math

import pytest
import torch

from isotropy.prominence import count_at_min_entropy, prominent_bars, prominent_mask
from isotropy.score import Score
from isotropy.topology import barcode


def bars(*lengths):
    return torch.tensor(lengths, dtype=torch.float64)


def blobs(centers, d, spread, seed=0):
    noise = torch.randn(len(centers), 30, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return (torch.tensor(centers, dtype=torch.float64)[:, None] + spread * noise).flatten(0, 1)


def test_prominent_bars_have_a_gradient_and_their_mask_none():
    lengths = bars(*[1] * 20, 9, 10, 8)
    assert prominent_bars(lengths) == Score(3)
    assert prominent_mask(lengths).nonzero().flatten().tolist() == [20, 21, 22]
    lengths = bars(1, 10, 9).requires_grad_()
    chosen = prominent_mask(lengths)
    lengths[chosen].sum().backward()
    assert not chosen.requires_grad
    assert lengths.grad.tolist() == [0, 1, 1]


@pytest.mark.parametrize("d", [2, 10, 768])
def test_three_groups_have_two_prominent_bars(d):
    centers = [[20.0 * d**0.5 if i == group else 0.0 for i in range(d)] for group in range(3)]
    lengths = barcode(blobs(centers, d, 1.0))
    assert prominent_mask(lengths).tolist() == [False] * 87 + [True] * 2


def test_single_group_has_more_prominent_bars_in_more_dimensions():
    assert prominent_bars(barcode(blobs([[0.0, 0.0]], 2, 1.0))) == Score(1)
    assert prominent_bars(barcode(blobs([[0.0] * 768], 768, 1.0))).value > 10
    assert prominent_bars(bars(*[0.7] * 9)) == Score(8)
    assert prominent_bars(barcode(0.3 * torch.eye(10, dtype=torch.float64))) == Score(8)


@pytest.mark.parametrize(("lengths", "count"), [
    ((5,), 1), ((2, 1), 1), ((1, 1), 1), ((10, 9, 1), 2), ((10, 9, 0.01), 1), ((3, 2, 1), 1),
])  # fmt: skip
def test_few_bars_have_expected_prominent_count(lengths, count):
    assert prominent_bars(bars(*lengths)) == Score(count)


def test_rule_is_repeated_and_short_bars_count_as_zero():
    # Entropy is minimal with 4 bars of length 10 among 23 of 10 and 0.1, and with 0.9 among 5.
    assert prominent_bars(bars(10, 9, 8, *[1] * 20)).value > prominent_bars(bars(10, 9, 8, *[0.1] * 20)).value == 1
    assert prominent_bars(bars(1e300, 9e299, 1e299, 5e-324)) == prominent_bars(bars(10, 9, 1))
    assert count_at_min_entropy(1.0, 10) == 5
    assert count_at_min_entropy(1 - 1e-9, 10) == pytest.approx(5)
    assert count_at_min_entropy(1 - 1.0001e-4, 10) == pytest.approx(count_at_min_entropy(1 - 0.9999e-4, 10), rel=1e-7)


def test_zero_bars_are_left_out():
    lengths = bars(0, 10, 9, 8, *[1] * 20, 0)
    assert prominent_mask(lengths).nonzero().flatten().tolist() == [1, 2, 3]
    assert prominent_bars(bars(0, 4, 0)) == Score(1)
    assert prominent_mask(bars(0, 0)).tolist() == [False, False]
    assert prominent_mask(bars()).tolist() == []
    assert prominent_bars(bars(0, 0)) == Score.undefined("All bars have length 0: all points are equal.")
    assert prominent_bars(bars()) == Score.undefined("There is no bar: a barcode needs at least 2 points.")


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nonfinite_bars_are_refused_and_have_no_score(bad):
    with pytest.raises(ValueError, match=r"Expected finite bars, got NaN or infinity: take those of barcode\(x\)\."):
        prominent_mask(bars(1, bad))
    reason = "The bars are not finite: some points are NaN, infinite or too far apart."
    assert prominent_bars(bars(1, bad)) == Score.undefined(reason)


@pytest.mark.parametrize("function", [prominent_mask, prominent_bars])
def test_invalid_lengths_are_refused(function):
    with pytest.raises(ValueError, match=r"Expected the lengths of bars as a floating tensor \[m\], got \[2, 2\]"):
        function(torch.ones(2, 2))


def test_scale_and_precision_do_not_change_prominence():
    lengths = bars(10, 9, 8, *[1] * 20)
    for scale in (1e-300, 1e-12, 1e12, 1e300):
        assert prominent_bars(scale * lengths) == Score(3)
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        assert prominent_bars(lengths.to(dtype)) == Score(3)
