import numpy as np
import pytest
import torch

from isotropy.cloud import read_cloud
from isotropy.rows import Dealing, Duplicates, Rows, Slices, deal_groups

ROWS = np.random.default_rng(0).standard_normal((30, 10))


def cloud_of(x, **arguments):
    return read_cloud(Rows(x, **arguments))


def test_blocks_are_balanced_and_equal_dealings_share_a_key():
    counts = np.bincount(Slices(1000, 10).blocks_of(np.arange(1000)), minlength=10)
    assert counts.min() >= 90
    assert counts.max() <= 110
    assert Dealing("rows", 100).key() == Dealing("rows", 100).key() != Dealing("rows", 101).key()
    assert deal_groups("aab", 3).key() == deal_groups("xxy", 3).key() != deal_groups("abb", 3).key()


def test_rows_of_group_share_a_block():
    groups = [f"document {row % 37}" for row in range(1000)]
    dealing = deal_groups(groups, 1000)
    blocks = dealing.blocks_of(np.arange(1000), 10)
    assert dealing.n_groups == 37
    assert len(set(zip(blocks.tolist(), groups, strict=True))) == 37
    assert len(set(blocks.tolist())) == 10
    assert deal_groups(["a", "", "a", "", "b"], 5).group_numbers.tolist() == [0, 1, 0, 2, 3]
    with pytest.raises(ValueError, match="a group for each of 3 rows, got 2"):
        deal_groups(["a", "b"], 3)
    with pytest.raises(ValueError, match="a group for each of 30 rows, got 2"):
        Rows(ROWS, row_groups=["a", "b"])


def test_duplicates_are_found_across_chunks():
    x = np.array([[1.0, 0.0], [2.0, 1.0], [1.0, -0.0], [3.0, 3.0], [2.0, 1.0]])
    duplicates = Duplicates(6)
    duplicates.update(x[:2], np.array([0, 1]))
    duplicates.update(x[2:], np.array([2, 4, 5]))  # row 3 is left out
    dealing = duplicates.dealing()
    assert (dealing.grouping, dealing.n_groups) == ("duplicates", 3)
    assert dealing.group_numbers.tolist() == [0, 1, 0, -1, 2, 1]
    duplicates = Duplicates(30)
    duplicates.update(ROWS, np.arange(30))
    assert duplicates.dealing().grouping == "rows"


@pytest.mark.parametrize("copies", [lambda x: np.repeat(x, 20, axis=0), lambda x: np.tile(x, (20, 1))])
def test_copies_do_not_change_score_or_error_much(copies):
    once, repeated = (cloud_of(x).moment_scores["isoscore_unbiased"] for x in (ROWS, copies(ROWS)))
    assert abs(repeated.value - once.value) < once.se / 2
    assert 0.6 < repeated.se / once.se < 1.7
    # Counted as independent, they would seem far more certain and less isotropic.
    assert cloud_of(copies(ROWS)).dealing.n_groups == 30


def test_given_groups_override_duplicates():
    cloud = cloud_of(np.repeat(ROWS, 2, axis=0), row_groups=[str(row // 6) for row in range(60)])
    assert (cloud.dealing.grouping, cloud.dealing.n_groups) == ("groups", 10)
    scores = cloud.moment_scores | cloud.spectrum_scores
    assert all(score.se is None for score in scores.values())  # too few groups
    assert scores["isoscore_unbiased"].value is not None


def test_duplicates_change_only_bias_corrected_values():
    x = np.concatenate([ROWS, ROWS[:5]])
    grouped = cloud_of(x)
    separate = cloud_of(x, row_groups=[""] * 35)
    assert grouped.dealing.grouping == "duplicates"
    for slug in ("isoscore", "participation_ratio", "mean_share"):
        assert grouped.moment_scores[slug].value == pytest.approx(separate.moment_scores[slug].value, rel=1e-12)
    assert torch.allclose(grouped.eigenvalues, separate.eigenvalues)
