import math

import pytest
import torch

from isotropy.cosine import CHUNK_ROWS, CosineMoments, cosine_histogram, unit_rows
from tests.rounding import apart, likely

A_FEW = apart(20, torch.float32)  # What three float32 points of two dimensions may lose


def cosine_moments(x):
    moments = CosineMoments(x.shape[1])
    moments.update(x)
    return moments


def test_mean_cosine_of_three_points_is_known_by_hand():
    # Cosines 0, 1/sqrt(2), 1/sqrt(2), whatever the lengths.
    x = torch.tensor([[1.0, 0.0], [0.0, 5.0], [2.0, 2.0]])
    assert cosine_moments(x).mean_cosine().value == pytest.approx(math.sqrt(2) / 3, rel=A_FEW)


def test_points_in_opposite_directions_reach_the_lower_bound():
    assert cosine_moments(torch.tensor([[1.0, 2.0], [-1.0, -2.0]])).mean_cosine().value == pytest.approx(-1)


def test_equal_points_have_mean_cosine_one():
    assert cosine_moments(torch.full((9, 3), 0.1)).mean_cosine().value == pytest.approx(1)


def test_zero_rows_are_counted_and_left_out():
    moments = cosine_moments(torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]))
    assert (moments.n, moments.zero_rows) == (2, 2)
    assert moments.mean_cosine().value == pytest.approx(1)


def test_many_equal_rows_lose_no_digit_to_their_sum():
    assert cosine_moments(torch.full((8192, 3), 0.1)).mean_cosine().value == pytest.approx(
        1, abs=2 * likely(CHUNK_ROWS, torch.float32)
    )


def test_merging_adds_rows_and_zero_rows():
    moments = cosine_moments(torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
    moments.merge(cosine_moments(torch.tensor([[0.0, 0.0], [0.0, 1.0]])))
    assert (moments.n, moments.zero_rows) == (2, 2)
    assert moments.mean_cosine().value == pytest.approx(0)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_rows_whose_squares_leave_float32_keep_their_direction(scale):
    moments = cosine_moments(torch.tensor([[1.0, 0.0], [1.0, 1.0]]) * scale)
    assert moments.mean_cosine().value == pytest.approx(math.sqrt(0.5), rel=A_FEW)


def test_mean_cosine_takes_half_precision():
    moments = cosine_moments(torch.tensor([[300.0, 0.0], [300.0, 300.0]]).half())
    assert moments.mean_cosine().value == pytest.approx(math.sqrt(0.5), rel=A_FEW)


def test_mean_cosine_is_undefined_for_fewer_than_two_rows_that_are_not_zero():
    score = cosine_moments(torch.tensor([[0.0, 0.0], [1.0, 0.0]])).mean_cosine()
    assert score.value is None
    assert score.reason == "The mean cosine needs at least 2 rows that are not zero; there is 1."


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_mean_cosine_is_undefined_for_points_that_are_not_finite(bad):
    score = cosine_moments(torch.tensor([[1.0, bad], [1.0, 0.0]])).mean_cosine()
    assert score.reason == "The mean cosine is not finite: some points are NaN or infinite."


def test_one_dimension_can_make_the_whole_mean_cosine():
    # Unit rows (0.6, 0.8), (0.6, -0.8): products 0.36 and -0.64.
    rogue = cosine_moments(torch.tensor([[3.0, 4.0], [6.0, -8.0]]).double()).rogue_dimensions()
    assert rogue.contributions.tolist() == pytest.approx([0.36, -0.64])
    assert rogue.score.value == pytest.approx(0.36)


def test_contributions_of_many_rows_are_those_of_their_parts_merged():
    x = torch.randn(5000, 3, generator=torch.Generator().manual_seed(0)) + 0.5
    x[::7] = 0
    total, merged = cosine_moments(x), cosine_moments(x[:1234])
    merged.merge(cosine_moments(x[1234:]))
    assert (total.n, total.zero_rows) == (merged.n, merged.zero_rows) == (4285, 715)
    expected = merged.rogue_dimensions().contributions.tolist()
    assert total.rogue_dimensions().contributions.tolist() == pytest.approx(
        expected, rel=2 * likely(CHUNK_ROWS, torch.float32)
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_equal_points_and_constant_dimensions_have_contributions(dtype):
    rogue = cosine_moments(torch.tensor([[0.0, 2.0]] * 5, dtype=dtype)).rogue_dimensions()
    assert rogue.contributions.tolist() == pytest.approx([0, 1])
    assert rogue.contributions.dtype == torch.float64


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e30])
def test_contributions_do_not_depend_on_scale(scale):
    rogue = cosine_moments(torch.tensor([[3.0, 4.0], [6.0, -8.0]]) * scale).rogue_dimensions()
    assert rogue.contributions.tolist() == pytest.approx([0.36, -0.64], rel=A_FEW)


@pytest.mark.parametrize(
    ("x", "reason"),
    [
        (torch.zeros(0, 2), "The mean cosine needs at least 2 rows that are not zero; there are 0."),
        (
            torch.tensor([[0.0, 0.0], [1.0, 0.0]]),
            "The mean cosine needs at least 2 rows that are not zero; there is 1.",
        ),
        (
            torch.tensor([[1.0, math.nan], [1.0, 0.0]]),
            "The mean cosine is not finite: some points are NaN or infinite.",
        ),
        (
            torch.tensor([[1.0, math.inf], [1.0, 0.0]]),
            "The mean cosine is not finite: some points are NaN or infinite.",
        ),
    ],
)
def test_rogue_dimensions_are_undefined_where_the_mean_cosine_is(x, reason):
    rogue = cosine_moments(x).rogue_dimensions()
    assert (rogue.score.value, rogue.score.reason) == (None, reason)
    assert rogue.contributions.tolist() == []


def test_unit_rows_keep_rows_of_zeros():
    assert unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).tolist() == [pytest.approx([0.6, 0.8]), [0, 0]]


def test_cosine_moments_refuse_points_of_another_space():
    with pytest.raises(ValueError, match=r"floating tensor \[n, 3\], got \[4, 2\]"):
        CosineMoments(3).update(torch.ones(4, 2))
    with pytest.raises(ValueError, match="Expected moments of 3 dimensions, got 2: merge only clouds of one"):
        CosineMoments(3).merge(CosineMoments(2))


def test_a_histogram_counts_each_pair_once():
    x = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    histogram = cosine_histogram(x, bins=4)
    assert histogram.edges.tolist() == [-1, -0.5, 0, 0.5, 1]
    assert histogram.counts.tolist() == [2, 0, 3, 1]


def test_a_histogram_counts_all_pairs_across_blocks():
    x = torch.randn(600, 5, generator=torch.Generator().manual_seed(0))
    histogram = cosine_histogram(x)
    assert int(histogram.counts.sum()) == 600 * 599 // 2
    centres = (histogram.edges[1:] + histogram.edges[:-1]) / 2
    mean = float((histogram.counts * centres).sum() / histogram.counts.sum())
    assert mean == pytest.approx(cosine_moments(x).mean_cosine().value, abs=0.01)


@pytest.mark.parametrize("n", [0, 1])
def test_a_histogram_without_pairs_is_empty(n):
    assert int(cosine_histogram(torch.ones(n, 3)).counts.sum()) == 0


def test_a_histogram_of_points_that_are_not_finite_is_refused():
    with pytest.raises(ValueError, match="Expected finite points, got NaN or infinity: leave those rows out"):
        cosine_histogram(torch.tensor([[1.0, math.nan], [1.0, 0.0]]))
