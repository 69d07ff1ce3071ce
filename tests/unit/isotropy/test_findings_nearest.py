"""Neighbors behind findings: exact even where float32 alone would overflow or merge rows."""

import numpy as np
import pytest
import torch

from isotropy.findings.nearest import find_nearest, mean_overlap


def rows(n=300, d=12, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, d)))


def by_definition(x, similarity):
    if similarity == "euclidean":
        near = -torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")
    else:
        units = torch.nn.functional.normalize(x) if similarity == "cosine" else x
        near = units @ units.T
    near.fill_diagonal_(-torch.inf)
    return near.topk(10).indices.sort(1).values


def neighbors_of(x, similarity):
    positions = torch.arange(len(x))
    return find_nearest(x, positions, [(x, positions)], similarity).neighbors.sort(1).values


@pytest.mark.parametrize("similarity", ["cosine", "euclidean", "dot"])
@pytest.mark.parametrize("size", [1.0, 1e60, 1e-60], ids=["usual", "huge", "tiny"])
def test_neighbors_match_definition_at_any_scale(similarity, size):
    x = rows()
    assert torch.equal(neighbors_of(x * size, similarity), by_definition(x, similarity))


@pytest.mark.parametrize("similarity", ["cosine", "euclidean", "dot"])
def test_integers_beyond_float32_have_neighbors_of_float64(similarity):
    # Like ids or times: near 1e9, where adjacent float32 numbers are 64 apart.
    x = (rows() * 2e5).round() + 1e9
    same = (neighbors_of(x, similarity)[:, :, None] == by_definition(x, similarity)[:, None, :]).any(2)
    assert same.double().mean() > 0.99


def test_zero_and_huge_rows_do_not_affect_other_neighbors():
    x = rows()
    x[7] = 0
    assert torch.equal(neighbors_of(x, "cosine")[:7], by_definition(x, "cosine")[:7])
    x = rows()
    x[0] *= 1e30
    assert torch.equal(neighbors_of(x, "euclidean")[1:], by_definition(x, "euclidean")[1:])
    assert mean_overlap(x, x, 100) == (1.0, 0.0)
