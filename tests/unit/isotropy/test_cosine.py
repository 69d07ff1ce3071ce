import math

import pytest
import torch

from isotropy.cosine import CHUNK_ROWS, CosineMoments, cosine_histogram, unit_rows
from tests.rounding import likely, tolerance

ROUNDING = tolerance(20, torch.float32)  # of three float32 points of two dimensions


def cosine_moments(x):
    moments = CosineMoments(x.shape[1])
    moments.update(x)
    return moments


@pytest.mark.parametrize(
    ("x", "expected", "error"),
    [
        # Cosines 0, 1/sqrt(2), 1/sqrt(2), whatever the lengths.
        (torch.tensor([[1.0, 0.0], [0.0, 5.0], [2.0, 2.0]]), math.sqrt(2) / 3, ROUNDING),
        (torch.tensor([[1.0, 2.0], [-1.0, -2.0]]), -1, 1e-6),
        (torch.full((9, 3), 0.1), 1, 1e-6),
        (torch.full((8192, 3), 0.1), 1, 2 * likely(CHUNK_ROWS, torch.float32)),
        (torch.tensor([[1.0, 0.0], [1.0, 1.0]]) * 1e-30, math.sqrt(0.5), ROUNDING),
        (torch.tensor([[1.0, 0.0], [1.0, 1.0]]) * 1e30, math.sqrt(0.5), ROUNDING),
        (torch.tensor([[300.0, 0.0], [300.0, 300.0]]).half(), math.sqrt(0.5), ROUNDING),
    ],
    ids=["three points", "opposite", "equal", "many equal", "tiny", "huge", "half"],
)
def test_mean_cosine_matches_hand_computation(x, expected, error):
    assert cosine_moments(x).mean_cosine().value == pytest.approx(expected, rel=error)


def test_zero_rows_are_counted_and_left_out():
    moments = cosine_moments(torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]))
    assert (moments.n, moments.zero_rows) == (2, 2)
    assert moments.mean_cosine().value == pytest.approx(1)
    moments = cosine_moments(torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
    moments.merge(cosine_moments(torch.tensor([[0.0, 0.0], [0.0, 1.0]])))
    assert (moments.n, moments.zero_rows) == (2, 2)
    assert moments.mean_cosine().value == pytest.approx(0)
    assert unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).tolist() == [pytest.approx([0.6, 0.8]), [0, 0]]


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1, 1e12, 1e30])
def test_rogue_dimension_contributions_do_not_depend_on_scale(scale):
    # Unit rows (0.6, 0.8), (0.6, -0.8): products 0.36 and -0.64.
    for x, error in (
        (torch.tensor([[3.0, 4.0], [6.0, -8.0]]), ROUNDING),
        (torch.tensor([[3.0, 4.0], [6, -8]]).double(), 1e-6),
    ):
        rogue = cosine_moments(x * scale).rogue_dimensions()
        assert rogue.contributions.tolist() == pytest.approx([0.36, -0.64], rel=error)
        assert rogue.score.value == pytest.approx(0.36, rel=error)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_equal_points_and_constant_dimensions_have_contributions(dtype):
    rogue = cosine_moments(torch.tensor([[0.0, 2.0]] * 5, dtype=dtype)).rogue_dimensions()
    assert rogue.contributions.tolist() == pytest.approx([0, 1])
    assert rogue.contributions.dtype == torch.float64


@pytest.mark.parametrize(
    ("x", "reason"),
    [
        (torch.zeros(0, 2), "The mean cosine needs at least 2 rows that are not zero; there are 0."),
        (torch.tensor([[0, 0.0], [1.0, 0.0]]), "The mean cosine needs at least 2 rows that are not zero; there is 1."),
        (torch.tensor([[1, math.nan], [1.0, 0.0]]), "The mean cosine is not finite: some points are NaN or infinite."),
        (torch.tensor([[1, math.inf], [1.0, 0.0]]), "The mean cosine is not finite: some points are NaN or infinite."),
    ],
)
def test_rogue_dimensions_are_undefined_if_mean_cosine_is(x, reason):
    rogue, mean = cosine_moments(x).rogue_dimensions(), cosine_moments(x).mean_cosine()
    assert (rogue.score.value, rogue.score.reason) == (mean.value, mean.reason) == (None, reason)
    assert rogue.contributions.tolist() == []


def test_mismatched_dimensions_and_nonfinite_points_are_refused():
    with pytest.raises(ValueError, match=r"floating tensor \[n, 3\], got \[4, 2\]"):
        CosineMoments(3).update(torch.ones(4, 2))
    with pytest.raises(ValueError, match="Expected moments of 3 dimensions, got 2: merge only clouds of one"):
        CosineMoments(3).merge(CosineMoments(2))
    with pytest.raises(ValueError, match="Expected finite points, got NaN or infinity: leave those rows out"):
        cosine_histogram(torch.tensor([[1.0, math.nan], [1.0, 0.0]]))


def test_histogram_counts_each_pair_once():
    x = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    histogram = cosine_histogram(x, bins=4)
    assert histogram.edges.tolist() == [-1, -0.5, 0, 0.5, 1]
    assert histogram.counts.tolist() == [2, 0, 3, 1]
    x = torch.randn(600, 5, generator=torch.Generator().manual_seed(0))
    histogram = cosine_histogram(x)
    assert int(histogram.counts.sum()) == 600 * 599 // 2
    centers = (histogram.edges[1:] + histogram.edges[:-1]) / 2
    mean = float((histogram.counts * centers).sum() / histogram.counts.sum())
    assert mean == pytest.approx(cosine_moments(x).mean_cosine().value, abs=0.01)
    assert [int(cosine_histogram(torch.ones(n, 3)).counts.sum()) for n in (0, 1)] == [0, 0]
