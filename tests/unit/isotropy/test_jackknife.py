import statistics

import numpy as np
import pytest
import torch

from isotropy import unbiased
from isotropy.anisotropy import mean_share
from isotropy.cosine import CosineMoments
from isotropy.isoscore import isoscore, isoscore_from_covariance
from isotropy.rows import deal_slices
from isotropy.score import Jackknife, Score, count_blocks_in_memory
from isotropy.spectrum import Moments
from isotropy.unbiased import BlockProducts, FourthMoments, isoscore_unbiased_from_moments
from tests.points import fourth_moments_of, moments_of, randn


def block_of_each_row(n, blocks=10, announced=None):
    return torch.from_numpy(deal_slices(np.arange(n), n if announced is None else announced, blocks))


def jackknife_of(x, blocks=10, kind=Moments, n=None):
    jackknife = Jackknife(lambda: kind(x.shape[1]), blocks)
    jackknife.update(x, block_of_each_row(len(x), blocks, n).numpy())
    return jackknife


def standard_error(jackknife, statistic):
    return jackknife.scores(lambda part: {"it": statistic(part)})["it"].se


def mean(moments):
    return Score(float(moments.mean[0]))


def spread(moments):
    return isoscore_from_covariance(moments.covariance())


def test_standard_error_of_mean_matches_hand_computation():
    for n, blocks in ((40, 5), (20, 10)):
        x, block = randn(n, 2), block_of_each_row(n, blocks)
        expected = statistics.stdev(float(x[block == b, 0].mean()) for b in range(blocks)) / blocks**0.5
        assert standard_error(jackknife_of(x, blocks), mean) == pytest.approx(expected, rel=1e-10)
    # 160 rows are announced, so a slice has 10. One block gets the first slice, the other the next two, because the
    # second round is reversed: mean 3, block means 0 and 4.5, shares 1/3 and 2/3.
    variance = ((0 - 3) ** 2 / 2 + 2 * (4.5 - 3) ** 2) / 2
    x = torch.tensor([0.0, 6.0, 3.0], dtype=torch.float64).repeat_interleave(10)[:, None]
    assert standard_error(jackknife_of(x, 2, n=160), mean) == pytest.approx(variance**0.5, rel=1e-12)


@pytest.mark.parametrize("blocks", [2, 3, 7, 10])
@pytest.mark.parametrize(
    ("kind", "statistic"),
    [(Moments, spread), (CosineMoments, CosineMoments.mean_cosine), (FourthMoments, isoscore_unbiased_from_moments)],
)
def test_standard_error_matches_recomputation_without_each_block(kind, statistic, blocks):
    x = 1 + randn(101, 4)
    n = len(x)
    block = block_of_each_row(n, blocks)
    total = moments_of(x, kind)
    pseudo, shares = [], []
    for left_out in range(blocks):
        remaining = moments_of(x[block != left_out], kind)
        shares.append(float((block == left_out).double().mean()))
        pseudo.append((statistic(total).value - (1 - shares[-1]) * statistic(remaining).value) / shares[-1])
    center = sum(share * value for share, value in zip(shares, pseudo, strict=True))
    terms = [share / (1 - share) * (value - center) ** 2 for share, value in zip(shares, pseudo, strict=True)]
    score = jackknife_of(x, blocks, kind).scores(lambda part: {"it": statistic(part)})["it"]
    assert score.value == pytest.approx(statistic(total).value, rel=1e-12)
    assert score.se == pytest.approx((sum(terms) / blocks) ** 0.5, rel=1e-8)


def test_each_statistic_has_its_own_standard_error():
    jackknife = jackknife_of(randn(300, 3))
    scores = jackknife.scores(lambda moments: {"mean": mean(moments), "spread": spread(moments)})
    assert scores["mean"].se == pytest.approx(standard_error(jackknife, mean))
    assert scores["spread"].se == pytest.approx(standard_error(jackknife, spread))
    assert scores["mean"].se != scores["spread"].se


@pytest.mark.long
@pytest.mark.slow
def test_standard_errors_match_spread_over_clouds():
    def measured(part):
        return {"mean": mean(part), "spread": spread(part), "unbiased": isoscore_unbiased_from_moments(part)}

    spreads = torch.arange(1, 9, dtype=torch.float64) ** -0.5
    # Announcing 1,200 rows gives each block one slice, which is faster.
    clouds = (randn(150, 8, seed) * spreads for seed in range(200))
    all_scores = [jackknife_of(x, kind=FourthMoments, n=1200).scores(measured) for x in clouds]
    for name in ("mean", "spread", "unbiased"):
        over_clouds = statistics.stdev(scores[name].value for scores in all_scores)
        # Each standard error varies by 24%, their mean square by 2%, the spread of 200 clouds by 5%.
        squares = statistics.fmean(scores[name].se ** 2 for scores in all_scores)
        assert squares**0.5 == pytest.approx(over_clouds, rel=0.2)


def ratio_to_shuffled(x):
    """Return the standard error of the mean of ordered rows over that of shuffled ones (RMS of 20)."""
    generator = torch.Generator().manual_seed(1)
    shuffled = [standard_error(jackknife_of(x[torch.randperm(len(x), generator=generator)]), mean) for _ in range(20)]
    return standard_error(jackknife_of(x), mean) / statistics.fmean(error**2 for error in shuffled) ** 0.5


def two_classes(gap, length):
    """Return rows [4000, 1] of two classes ``gap`` standard deviations apart, in runs of ``length``."""
    x = randn(4000, 1)
    x[torch.arange(4000) // length % 2 == 1] += gap
    return x


# A standard error from 10 blocks varies by 24%.
def test_sorted_rows_have_standard_error_of_shuffled_rows():
    assert 0.6 < ratio_to_shuffled(randn(4000, 1).sort(dim=0).values) < 1.8
    # The deviation is 1 within a class and sqrt(1 + 4) overall, but blocks have equal shares of both classes.
    assert 0.3 < ratio_to_shuffled(two_classes(4, 2000)) < 0.6


@pytest.mark.parametrize("length", [5, 17, 50, 100, 2000])
def test_class_order_does_not_change_standard_error_much(length):
    assert 0.6 < ratio_to_shuffled(two_classes(1, length)) < 1.5


@pytest.mark.parametrize(("n", "blocks"), [(160, 10), (4000, 10), (333, 7)])
def test_each_round_deals_one_slice_per_block_and_reverses(n, blocks):
    length = max(n // (8 * blocks), 1)
    rounds = block_of_each_row(n, blocks)[: 8 * blocks * length].view(8, blocks, length)
    assert torch.equal(rounds, rounds[:, :, :1].expand_as(rounds))
    orders = rounds[:, :, 0].tolist()
    assert [sorted(order) for order in orders] == [list(range(blocks))] * 8
    assert orders[1::2] == [order[::-1] for order in orders[::2]]
    assert len({tuple(order) for order in orders}) == 8


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
def test_blocks_do_not_depend_on_chunks(chunk):
    x, block = randn(700, 3), block_of_each_row(700)
    cut = Jackknife(lambda: Moments(3))
    for piece, positions in zip(x.split(chunk), torch.arange(700).split(chunk), strict=True):
        assert (deal_slices(positions.numpy(), 700, 10) == block[positions].numpy()).all()
        cut.update(piece, block[positions].numpy())
    assert cut.total().n == 700
    assert standard_error(cut, spread) == pytest.approx(standard_error(jackknife_of(x), spread), rel=1e-9)


@pytest.mark.parametrize(("n", "length"), [(0, 1), (159, 1), (160, 2), (20_000, 250), (10**6, 4096)])
def test_slice_is_an_eighth_of_a_block_up_to_a_chunk(n, length):
    counts = block_of_each_row(length + 1, announced=n).bincount(minlength=10)
    assert sorted(counts.tolist()) == sorted([length, 1, *[0] * 8])


def test_total_is_moments_of_all_points():
    x = randn(333, 4)
    expected = moments_of(x)
    for blocks in (1, 2, 10):
        total = jackknife_of(x, blocks).total()
        assert total.n == 333
        torch.testing.assert_close(total.covariance(), expected.covariance(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("n", "blocks"), [(0, 10), (1, 10), (2, 10), (3, 10), (19, 10), (19, 2), (100, 1)])
def test_standard_error_needs_twenty_points_and_two_blocks(n, blocks):
    score = jackknife_of(randn(n, 2), blocks).scores(lambda part: {"it": Score(float(part.n))})["it"]
    assert score == Score(float(n))


def test_score_undefined_without_a_block_has_no_standard_error():
    x = randn(25, 2)
    assert standard_error(jackknife_of(x, 30), mean) == pytest.approx(float(x[:, 0].std()) / 25**0.5, rel=1e-10)
    score = jackknife_of(torch.ones(50, 3)).scores(lambda part: {"it": spread(part)})["it"]
    assert score.se is None
    assert score.reason == "The covariance is zero: all points are equal, or there are fewer than two."
    x = torch.ones(40, 2, dtype=torch.float64)
    x[block_of_each_row(40) == 3] = randn(4, 2)
    score = jackknife_of(x).scores(lambda part: {"it": spread(part)})["it"]
    assert score.value == pytest.approx(isoscore(x).value)
    assert score.se is None


@pytest.mark.parametrize(
    ("d", "blocks"), [(2, 10), (768, 10), (2590, 10), (2591, 9), (4096, 4), (5792, 2), (5793, 1), (16_384, 1), (0, 10)]
)
def test_large_covariances_use_fewer_blocks(d, blocks):
    assert count_blocks_in_memory(d * d) == blocks


def test_zero_blocks_and_mismatched_points_are_refused():
    with pytest.raises(ValueError, match="Expected at least 1 block, got 0: 1 only sums, 2 and more have standard"):
        Jackknife(lambda: Moments(2), 0)
    with pytest.raises(ValueError, match=r"floating tensor \[n, 3\], got \[1, 2\] of torch.float64"):
        Jackknife(lambda: Moments(3)).update(randn(9, 2), np.arange(9))


def blocks_of(x, codes):
    return [fourth_moments_of(x[codes == code]) for code in codes.unique()]


def points(n, d, shift=3.0):
    x = torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(n))
    return x * torch.arange(1, d + 1) + shift


def test_block_can_be_left_out_but_four_are_needed():
    x = torch.randn(6000, 100, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    scores = unbiased.scores_across_blocks(BlockProducts(blocks_of(x, torch.arange(6000) % 10)))
    assert scores["isoscore_unbiased"].value == pytest.approx(1, abs=0.01)
    x, codes = points(60, 5), torch.arange(60) % 6
    left_out = unbiased.scores_across_blocks(BlockProducts(blocks_of(x, codes)), 2)["isoscore_unbiased"]
    remaining = unbiased.scores_across_blocks(BlockProducts(blocks_of(x[codes != 2], codes[codes != 2])))
    assert left_out.value == pytest.approx(remaining["isoscore_unbiased"].value, rel=1e-9)
    products = BlockProducts(blocks_of(points(20, 3), torch.arange(20) % 4))
    assert unbiased.scores_across_blocks(products)["isoscore_unbiased"].value is not None
    assert "at least 4 independent rows" in unbiased.scores_across_blocks(products, 0)["isoscore_unbiased"].reason
    products = BlockProducts(blocks_of(torch.ones(20, 3, dtype=torch.float64), torch.arange(20) % 4))
    assert "all points are equal" in unbiased.scores_across_blocks(products)["participation_ratio_unbiased"].reason


@pytest.mark.parametrize("huge", [0, 1e3, 1e8])
def test_scores_without_block_match_scores_of_other_rows(huge):
    x = points(500, 8)
    x[7] += huge
    blocks = torch.arange(500) // 50
    scores = BlockProducts(blocks_of(x, blocks)).scores_without(0)
    other_rows = fourth_moments_of(x[50:])
    expected = unbiased.corrected_scores_from_moments(other_rows) | {"mean_share": mean_share(other_rows)}
    assert {slug: score.value for slug, score in scores.items()} == pytest.approx(
        {slug: score.value for slug, score in expected.items()}, rel=1e-12
    )
