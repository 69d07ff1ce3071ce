from itertools import pairwise

import pytest
import torch
from clouds import clouds, rotation, seeds, solved_clouds
from hypothesis import given
from hypothesis import strategies as st

from isotropy.anisotropy import second_moment
from isotropy.isoscore import participation_ratio
from isotropy.rank import alpha_req, effective_rank, explained_variance, rankme, stable_rank
from isotropy.spectrum import Moments, eigenvalues


def scores(x, pieces=1):
    """Return the ranks of the centered points and RankMe of the raw points, from pieces of a cloud."""
    moments = Moments(x.shape[1])
    for piece in x.tensor_split(pieces):
        moments.update(piece)
    centered = eigenvalues(moments.covariance(), moments.n - 1)
    values = [
        effective_rank(centered, "sigma"),
        effective_rank(centered, "lambda"),
        stable_rank(centered),
        alpha_req(centered, (1, 5)),
        *explained_variance(centered, len(centered)),
    ]
    raw = rankme(eigenvalues(second_moment(moments), moments.n), moments.n)
    return [score.value for score in values], raw.value


# Two points have one direction, too few to fit a slope.
clouds_of_three = clouds(min_n=3)


@given(clouds_of_three, seeds, st.floats(1e-9, 1e9), st.floats(-1e3, 1e3))
def test_ranks_ignore_rotation_order_and_scale(x, seed, scale, shift):
    centered, raw = scores(x)
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    for moved in (x[rows] @ rotation(x.shape[1], seed), x * scale):
        assert scores(moved)[0] == pytest.approx(centered, rel=1e-7)
        assert scores(moved)[1] == pytest.approx(raw, rel=1e-7)
    assert scores(x + shift)[0] == pytest.approx(centered, rel=1e-7)


@given(clouds_of_three, st.integers(1, 5))
def test_chunked_ranks_are_exact(x, pieces):
    centered, raw = scores(x, pieces)
    assert centered == pytest.approx(scores(x)[0], rel=1e-7)
    assert raw == pytest.approx(scores(x)[1], rel=1e-7)


@given(clouds_of_three)
def test_ranks_are_ordered_and_bounded(x):
    n, d = x.shape
    (by_sigma, by_lambda, stable, *_), _ = scores(x)
    pr = participation_ratio(torch.cov(x.T)).value
    ordered = [1, stable, pr, by_lambda, by_sigma, min(n - 1, d)]
    assert all(lower <= higher * (1 + 1e-9) for lower, higher in pairwise(ordered))


@given(solved_clouds(equal=True))
def test_k_equal_eigenvalues_have_rank_k(solved):
    x, spectrum = solved
    k = int(spectrum.count_nonzero())
    (by_sigma, by_lambda, stable, *_), _ = scores(x)
    assert [by_sigma, by_lambda, stable] == pytest.approx([k] * 3, rel=1e-9)
