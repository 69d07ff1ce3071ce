import math

import pytest
import torch

from isotropy.prominence import count_at_min_entropy, prominent_bars, prominent_mask
from isotropy.score import Score
from isotropy.topology import bar_entropy, barcode, longest_bar, persistent_entropy
from tests.rounding import tolerance


def bars(*lengths):
    return torch.tensor(lengths, dtype=torch.float64)


def test_bars_of_simplex_pair_and_equal_points_are_known():
    lengths = barcode(3 * torch.eye(20, dtype=torch.float64))
    assert lengths.tolist() == pytest.approx([3 * math.sqrt(2)] * 19)
    assert persistent_entropy(lengths).value == pytest.approx(math.log(19))
    assert persistent_entropy(lengths, normalized=True).value == pytest.approx(1)
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0]])
    assert barcode(x).tolist() == [5]
    assert longest_bar(barcode(x)) == Score(5)
    lengths = barcode(torch.full((9, 3), 0.1))
    assert longest_bar(lengths) == Score(0)
    assert persistent_entropy(lengths) == Score.undefined("All bars have length 0: all points are equal.")


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_points_have_no_bar(n):
    lengths = barcode(torch.ones(n, 4))
    assert lengths.shape == (0,)
    reason = "There is no bar: a barcode needs at least 2 points."
    assert longest_bar(lengths) == Score.undefined(reason)


def test_duplicates_have_zero_bars():
    x = torch.randn(20, 50, generator=torch.Generator().manual_seed(0)) + 1000
    twice = torch.cat([x, x[:7]])
    assert barcode(twice)[:7].tolist() == [0] * 7
    torch.testing.assert_close(barcode(twice)[7:], barcode(x), rtol=tolerance(50, x.dtype), atol=0)


@pytest.mark.parametrize(("dtype", "bar_dtype"), [
    (torch.float64, torch.float64), (torch.float32, torch.float32),
    (torch.float16, torch.float32), (torch.bfloat16, torch.float32),
])  # fmt: skip
def test_bars_have_precision_of_points_and_at_least_float32(dtype, bar_dtype):
    x = torch.tensor([[0.0, 0.0], [300.0, 400.0], [0.0, 1.0]], dtype=dtype)
    lengths = barcode(x)
    assert lengths.dtype == bar_dtype
    assert lengths.tolist() == pytest.approx([1, math.hypot(300, 399)])


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e30])
def test_overflowing_squares_keep_bars_and_gradients(scale):
    x = torch.randn(30, 5, generator=torch.Generator().manual_seed(0))
    scaled = (x * scale).requires_grad_()
    lengths = barcode(scaled)
    torch.testing.assert_close(lengths / scale, barcode(x), rtol=tolerance(10, x.dtype, condition=10), atol=0)
    lengths.sum().backward()
    assert scaled.grad.isfinite().all()
    assert float(scaled.grad.norm()) > 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_nonfinite_points_are_refused(bad):
    x = torch.randn(5, 3)
    x[2, 1] = bad
    with pytest.raises(ValueError, match=r"Expected finite points, got NaN or infinity: leave"):
        barcode(x)


def test_invalid_points_are_refused():
    with pytest.raises(ValueError, match=r"Expected points as a floating tensor \[n, d\], got \[3\] of torch.float32"):
        barcode(torch.ones(3))


@pytest.mark.parametrize("function", [bar_entropy, persistent_entropy, longest_bar])
@pytest.mark.parametrize("lengths", [torch.ones(3, 1), torch.ones(3, dtype=torch.int64)])
def test_invalid_lengths_are_refused(function, lengths):
    with pytest.raises(
        ValueError, match=r"Expected the lengths of bars as a floating tensor \[m\], got .*barcode\(x\)"
    ):
        function(lengths)


@pytest.mark.parametrize(("n", "expected"), [(1, "are 0"), (2, "is 1")])
def test_persistent_entropy_is_undefined_below_three_points(n, expected):
    lengths = barcode(torch.eye(n))
    reason = f"Persistent entropy needs at least 2 bars, so at least 3 points; there {expected}."
    assert persistent_entropy(lengths) == Score.undefined(reason)


@pytest.mark.parametrize("function", [persistent_entropy, longest_bar])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nonfinite_bars_have_no_measure(function, bad):
    reason = "The bars are not finite: some points are NaN, infinite or too far apart."
    assert function(bars(1, bad, 2)) == Score.undefined(reason)
    assert function(barcode(torch.tensor([[3e38], [-3e38], [0.0]]).repeat(1, 2))).reason == reason


def test_bars_of_length_zero_add_nothing_but_count():
    expected = 1.5 * math.log(2)
    assert persistent_entropy(bars(0, 1, 1, 0, 2)).value == pytest.approx(expected)
    assert persistent_entropy(bars(0, 1, 1, 0, 2), normalized=True).value == pytest.approx(expected / math.log(5))
    assert persistent_entropy(bars(0, 0, 7)) == Score(0)


@pytest.mark.parametrize("scale", [1e-40, 1e38])
def test_entropy_is_accurate_at_float32_limits(scale):
    lengths = torch.tensor([1.0, 1.0, 2.0]) * scale
    assert float(bar_entropy(lengths)) == pytest.approx(1.5 * math.log(2), rel=1e-4)


def test_gradients_are_finite_for_short_bars_and_duplicates():
    lengths = torch.tensor([1e-45, 1.0, 3.0]).requires_grad_()
    bar_entropy(lengths).backward()
    assert lengths.grad.isfinite().all()
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [5.0, 1.0]], requires_grad=True)
    barcode(x)[-1].backward()
    assert x.grad.tolist() == [[0, 0], [-1, 0], [1, 0]]
    x = torch.randn(12, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    once, twice = x.clone().requires_grad_(), torch.cat([x, x[:4]]).requires_grad_()
    bar_entropy(barcode(once)).backward()
    bar_entropy(barcode(twice)).backward()
    assert twice.grad.isfinite().all()
    moved = twice.grad[:12].clone()
    moved[:4] += twice.grad[12:]
    torch.testing.assert_close(moved, once.grad)


@pytest.mark.parametrize("x", [torch.ones(6, 4), torch.ones(1, 4), torch.ones(0, 4), torch.eye(2)])
def test_degenerate_points_have_zero_entropy_and_gradient(x):
    points = x.clone().requires_grad_()
    entropy = bar_entropy(barcode(points))
    entropy.backward()
    assert entropy.detach() == 0
    assert not points.grad.any()


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
def test_prominence_refuses_invalid_lengths(function):
    with pytest.raises(ValueError, match=r"Expected the lengths of bars as a floating tensor \[m\], got \[2, 2\]"):
        function(torch.ones(2, 2))


def test_scale_and_precision_do_not_change_prominence():
    lengths = bars(10, 9, 8, *[1] * 20)
    for scale in (1e-300, 1e-12, 1e12, 1e300):
        assert prominent_bars(scale * lengths) == Score(3)
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        assert prominent_bars(lengths.to(dtype)) == Score(3)
