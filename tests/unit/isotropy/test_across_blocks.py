import pytest
import torch

from isotropy.anisotropy import mean_share
from isotropy.unbiased import (
    BlockProducts,
    FourthMoments,
    corrected_scores_from_moments,
    isoscore_unbiased,
    scores_across_blocks,
)


def blocks_of(x, codes):
    blocks = []
    for code in codes.unique():
        blocks.append(FourthMoments(x.shape[1]))
        blocks[-1].update(x[codes == code])
    return blocks


def points(n, d, shift=3.0, scale=1.0):
    x = torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(n))
    return scale * (x * torch.arange(1, d + 1) + shift)


@pytest.mark.parametrize("scale", [1.0, 1e-60, 1e60])
@pytest.mark.parametrize("blocks", [4, 7, 10])
def test_scores_match_unbiased_score_over_distinct_blocks(blocks, scale):
    x = points(60, 5)
    codes = torch.randint(blocks, (60,), generator=torch.Generator().manual_seed(blocks))
    products = BlockProducts(blocks_of(scale * x, codes))
    expected = isoscore_unbiased(x, codes)
    scores = scores_across_blocks(products)
    assert scores["isoscore_unbiased"].value == pytest.approx(expected.value, rel=1e-9)
    assert scores["participation_ratio_unbiased"].value == pytest.approx(1 + 4 * expected.value, rel=1e-9)


def test_block_can_be_left_out_but_four_are_needed():
    x = torch.randn(6000, 100, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    scores = scores_across_blocks(BlockProducts(blocks_of(x, torch.arange(6000) % 10)))
    assert scores["isoscore_unbiased"].value == pytest.approx(1, abs=0.01)
    x, codes = points(60, 5), torch.arange(60) % 6
    left_out = scores_across_blocks(BlockProducts(blocks_of(x, codes)), 2)["isoscore_unbiased"]
    assert left_out.value == pytest.approx(isoscore_unbiased(x[codes != 2], codes[codes != 2]).value, rel=1e-9)
    products = BlockProducts(blocks_of(points(20, 3), torch.arange(20) % 4))
    assert scores_across_blocks(products)["isoscore_unbiased"].value is not None
    assert "at least 4 independent rows" in scores_across_blocks(products, 0)["isoscore_unbiased"].reason
    products = BlockProducts(blocks_of(torch.ones(20, 3, dtype=torch.float64), torch.arange(20) % 4))
    assert "all points are equal" in scores_across_blocks(products)["participation_ratio_unbiased"].reason


@pytest.mark.parametrize("huge", [0, 1e3, 1e8])
def test_scores_without_block_match_scores_of_other_rows(huge):
    x = points(500, 8)
    x[7] += huge
    blocks = torch.arange(500) // 50
    scores = BlockProducts(blocks_of(x, blocks)).scores_without(0)
    moments_without_block = FourthMoments(8)
    moments_without_block.update(x[50:])
    expected = corrected_scores_from_moments(moments_without_block) | {"mean_share": mean_share(moments_without_block)}
    assert {slug: score.value for slug, score in scores.items()} == pytest.approx(
        {slug: score.value for slug, score in expected.items()}, rel=1e-12
    )
