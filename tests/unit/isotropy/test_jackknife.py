import statistics

import pytest
import torch

from isotropy.cosine import CosineMoments
from isotropy.isoscore import isoscore_from_covariance
from isotropy.jackknife import Jackknife, blocks_within
from isotropy.score import Score
from isotropy.spectrum import Moments
from isotropy.unbiased import FourthMoments, isoscore_unbiased, isoscore_unbiased_from_moments


def points(n, d, seed=0):
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def dealt(x, blocks=10, kind=Moments, n=None):
    jackknife = Jackknife(lambda: kind(x.shape[1]), len(x) if n is None else n, blocks)
    jackknife.update(x)
    return jackknife


def mean(moments):
    return Score(float(moments.mean[0]))


def spread(moments):
    return isoscore_from_covariance(moments.covariance())


def test_a_mean_of_equal_blocks_has_the_standard_deviation_of_their_means_over_the_root_of_their_number():
    # 40 rows in 5 blocks: slices of 1 row, so that row i is dealt to block i mod 5.
    x = points(40, 2)
    of_blocks = [float(x[block::5, 0].mean()) for block in range(5)]
    assert dealt(x, 5).standard_error(mean) == pytest.approx(statistics.stdev(of_blocks) / 5**0.5, rel=1e-10)


def test_a_mean_of_unequal_blocks_is_known_by_hand():
    # Blocks {0, 3} and {6}: mean 3, block means 1.5 and 6, shares 2/3 and 1/3.
    variance = (2 * (1.5 - 3) ** 2 + (6 - 3) ** 2 / 2) / 2
    x = torch.tensor([[0.0], [6.0], [3.0]], dtype=torch.float64)
    assert dealt(x, 2).standard_error(mean) == pytest.approx(variance**0.5, rel=1e-12)


@pytest.mark.parametrize("blocks", [2, 3, 7, 10])
@pytest.mark.parametrize(
    ("kind", "statistic"),
    [
        (Moments, spread),
        (CosineMoments, CosineMoments.mean_cosine),
        (FourthMoments, isoscore_unbiased_from_moments),
    ],
)
def test_the_standard_error_is_that_of_moments_made_anew_without_each_block(kind, statistic, blocks):
    x = 1 + points(101, 4)
    n = len(x)
    block = torch.arange(n) // max(n // (8 * blocks), 1) % blocks
    whole = kind(4)
    whole.update(x)
    pseudo, shares = [], []
    for left_out in range(blocks):
        rest = kind(4)
        rest.update(x[block != left_out])
        shares.append(float((block == left_out).double().mean()))
        pseudo.append((statistic(whole).value - (1 - shares[-1]) * statistic(rest).value) / shares[-1])
    centre = sum(share * value for share, value in zip(shares, pseudo, strict=True))
    terms = [share / (1 - share) * (value - centre) ** 2 for share, value in zip(shares, pseudo, strict=True)]
    score = dealt(x, blocks, kind).scores(lambda part: {"it": statistic(part)})["it"]
    assert score.value == pytest.approx(statistic(whole).value, rel=1e-12)
    assert score.se == pytest.approx((sum(terms) / blocks) ** 0.5, rel=1e-8)


def test_several_statistics_have_each_its_own_standard_error():
    jackknife = dealt(points(300, 3))
    found = jackknife.scores(lambda moments: {"mean": mean(moments), "spread": spread(moments)})
    assert found["mean"].se == pytest.approx(jackknife.standard_error(mean))
    assert found["spread"].se == pytest.approx(jackknife.standard_error(spread))
    assert found["mean"].se != found["spread"].se


def test_standard_errors_are_the_spread_of_the_scores_over_clouds():
    def measured(part):
        return {"mean": mean(part), "spread": spread(part), "unbiased": isoscore_unbiased_from_moments(part)}

    spreads = torch.arange(1, 9, dtype=torch.float64) ** -0.5
    found = [dealt(points(150, 8, seed) * spreads, kind=FourthMoments).scores(measured) for seed in range(100)]
    for name in ("mean", "spread", "unbiased"):
        over_clouds = statistics.stdev(scores[name].value for scores in found)
        # Each standard error is off by some 24 %, their mean square by 2 %, the spread of 100 clouds by 7 %.
        assert statistics.fmean(scores[name].se ** 2 for scores in found) ** 0.5 == pytest.approx(over_clouds, rel=0.2)


def test_a_sorted_file_has_the_standard_error_of_a_shuffled_one():
    x = points(4000, 3)
    x[:, 0] = x[:, 0].sort().values
    in_one_run = statistics.stdev(float(block[:, 0].mean()) for block in x.split(400)) / 10**0.5
    assert dealt(x).standard_error(mean) < 0.3 * in_one_run


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
def test_the_blocks_are_the_same_however_the_stream_is_cut(chunk):
    x = points(700, 3)
    cut = Jackknife(lambda: Moments(3), len(x))
    for piece in x.split(chunk):
        cut.update(piece)
    assert cut.total().n == 700
    assert cut.standard_error(spread) == pytest.approx(dealt(x).standard_error(spread), rel=1e-9)


@pytest.mark.parametrize(("n", "length"), [(0, 1), (159, 1), (160, 2), (20_000, 250), (10**6, 4096)])
def test_slices_are_an_eighth_of_a_block_from_one_row_to_a_chunk(n, length):
    parts = [CosineMoments(2) for _ in range(10)]
    jackknife = Jackknife(iter(parts).__next__, n)
    jackknife.update(points(length + 1, 2))
    assert [part.n for part in parts] == [length, 1, *[0] * 8]


def test_the_total_is_the_moments_of_all_points():
    x = points(333, 4)
    whole = Moments(4)
    whole.update(x)
    for blocks in (1, 2, 10):
        total = dealt(x, blocks).total()
        assert total.n == 333
        torch.testing.assert_close(total.covariance(), whole.covariance(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("n", "blocks"), [(0, 10), (1, 10), (100, 1)])
def test_fewer_than_two_blocks_with_points_have_no_standard_error(n, blocks):
    score = dealt(points(n, 2), blocks).scores(lambda part: {"it": Score(float(part.n))})["it"]
    assert score == Score(float(n))


def test_fewer_points_than_blocks_are_blocks_of_one_point():
    x = points(6, 2)
    assert dealt(x).standard_error(mean) == pytest.approx(float(x[:, 0].std()) / 6**0.5, rel=1e-10)


def test_a_score_that_is_undefined_has_no_standard_error():
    score = dealt(torch.ones(50, 3)).scores(lambda part: {"it": spread(part)})["it"]
    assert score.se is None
    assert score.reason == "The covariance is zero: all points are equal, or there are fewer than two."


def test_a_score_that_is_undefined_without_one_block_has_no_standard_error():
    x = points(4, 2)
    score = dealt(x, kind=FourthMoments).scores(lambda part: {"it": isoscore_unbiased_from_moments(part)})["it"]
    assert score.value == pytest.approx(isoscore_unbiased(x).value)
    assert score.se is None


@pytest.mark.parametrize(
    ("d", "blocks"), [(2, 10), (768, 10), (2590, 10), (2591, 9), (4096, 4), (5792, 2), (5793, 1), (16_384, 1)]
)
def test_large_covariances_are_kept_in_fewer_blocks(d, blocks):
    assert blocks_within(d * d) == blocks


def test_no_blocks_are_refused():
    with pytest.raises(ValueError, match="Expected at least 1 block, got 0: 1 only sums, 2 and more have standard"):
        Jackknife(lambda: Moments(2), 100, 0)


def test_points_of_another_space_are_refused():
    with pytest.raises(ValueError, match=r"floating tensor \[n, 3\], got \[1, 2\] of torch.float64"):
        Jackknife(lambda: Moments(3), 9).update(points(9, 2))
