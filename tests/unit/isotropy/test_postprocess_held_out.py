import re

import pytest
import torch

from isotropy.postprocess.held_out import held_out
from isotropy.postprocess.methods import fit
from isotropy.postprocess.whitening import fit_centering, fit_zca_whitening


def cloud(n=20, d=3):
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_held_out_rows_use_map_fitted_on_other_rows():
    points = cloud()
    split = held_out(points, fit_centering, fit_rows=torch.tensor([0, 4, 2]))
    assert split.fit_rows.tolist() == [0, 2, 4]
    assert split.held_out_rows.tolist() == [1, 3, *range(5, 20)]
    mean = points[[0, 2, 4]].mean(0)
    assert torch.equal(split.held_out.before, points[split.held_out_rows])
    torch.testing.assert_close(split.held_out.after, points[split.held_out_rows] - mean)
    assert torch.equal(split.in_sample.before, points[[0, 2, 4]])
    torch.testing.assert_close(split.in_sample.after, points[[0, 2, 4]] - mean)
    torch.testing.assert_close(split.fitted.mean, mean)


def test_fit_rows_follow_mask_seed_and_groups():
    mask = torch.arange(20) < 7
    assert held_out(cloud(), fit_centering, fit_rows=mask).fit_rows.tolist() == list(range(7))
    drawn = [held_out(cloud(), fit_centering, seed=seed).fit_rows.tolist() for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    split = held_out(cloud(), lambda points: fit("soft_zca", points, eps=0.0))
    torch.testing.assert_close(split.fitted.matrix, held_out(cloud(), fit_zca_whitening).fitted.matrix)
    groups = torch.arange(20) // 4 * 11 - 3
    split = held_out(cloud(), fit_centering, 0.4, groups=groups)
    fit_groups, held_out_groups = set(groups[split.fit_rows].tolist()), set(groups[split.held_out_rows].tolist())
    assert len(fit_groups) == 2
    assert len(held_out_groups) == 3
    assert not fit_groups & held_out_groups


@pytest.mark.parametrize(("fraction", "fitted_on"), [(0.5, 10), (0.25, 5), (0.001, 1), (0.999, 19)])
def test_fraction_leaves_rows_in_both_parts(fraction, fitted_on):
    split = held_out(cloud(), fit_centering, fraction)
    assert len(split.fit_rows) == fitted_on
    assert sorted([*split.fit_rows.tolist(), *split.held_out_rows.tolist()]) == list(range(20))


@pytest.mark.parametrize(
    ("n", "options", "sentence"),
    [
        *(
            (20, {"fraction": bad}, f"Expected a fraction of rows between 0 and 1 to fit on, got {bad}: both parts")
            for bad in (0.0, 1.0, -1.0, float("nan"))
        ),
        (0, {}, "Expected rows to fit on, got none of 0: both parts need at least one"),
        (1, {}, "Expected rows to fit on, got none of 1: both parts need at least one"),
        (20, {"groups": torch.zeros(20)}, "Expected rows to fit on, got none of 20: both parts need at least one"),
        (20, {"fit_rows": torch.arange(19) < 3}, r"Expected a mask \[20\] of rows to fit on, got \[19\]"),
        (20, {"groups": torch.arange(19)}, r"Expected a group for each of 20 rows, got \[19\]"),
        (
            20, {"groups": torch.arange(20), "fit_rows": torch.arange(3)},
            "Expected groups or fit_rows, got both: pass one of them",
        ),
    ],
)  # fmt: skip
def test_invalid_row_choices_are_refused(n, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        held_out(cloud(n), fit_centering, **options)
    with pytest.raises(ValueError, match=r"Expected points as a floating tensor \[n, d\], got \[5\]"):
        held_out(torch.zeros(5), fit_centering)


@pytest.mark.parametrize(
    ("rows", "lacks"), [(torch.arange(20), "hold out"), (torch.arange(0), "fit on"), (torch.zeros(20) > 1, "fit on")]
)
def test_fit_rows_that_leave_a_part_empty_are_refused(rows, lacks):
    with pytest.raises(ValueError, match=f"Expected rows to {lacks}, got none of 20: both parts need at least one"):
        held_out(cloud(), fit_centering, fit_rows=rows)


@pytest.mark.parametrize(
    ("rows", "got"),
    [
        ([0, 20, 21, 20], "got 3 outside, the first 20: leave them out."),
        ([-1, 3], "got 1 outside, the first -1: leave them out."),
        ([7, 2, 7, 2, 2, 1], "got 2 more than once, the smallest 2: give each once."),
        ([[1], [2]], "got torch.int64 [2, 1]: give their indices, integers [k]."),
        ([0.5], "got torch.float32 [1]: give their indices, integers [k]."),
    ],
)
def test_unknown_or_repeated_fit_rows_are_refused(rows, got):
    with pytest.raises(ValueError, match=re.escape(f"Expected different rows from 0 to 19 to fit on, {got}")):
        held_out(cloud(), fit_centering, fit_rows=torch.tensor(rows))
