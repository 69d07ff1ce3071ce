"""A decomposition after an outer product was added, beside decomposing the sum anew."""

import numpy as np
import pytest
import torch

from isotropy.rank_one import with_outer_product


def randn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def covariance(n, d):
    x = randn(n, d) / torch.arange(1, d + 1, dtype=torch.float64).sqrt()
    return x.T @ x / n


MATRICES = {
    "one dimension": covariance(9, 1),
    "two dimensions": covariance(9, 2),
    "full rank": covariance(300, 60),
    "few points": covariance(20, 60),
    "all equal": torch.eye(60, dtype=torch.float64),
    "in groups": (torch.arange(60) // 10).double().diag(),
    "nearly in groups": ((torch.arange(60) // 10).double() + 1e-13 * torch.rand(60)).sort().values.diag(),
    "over thirty orders": torch.logspace(-30, 3, 60, dtype=torch.float64).diag(),
    "zero": torch.zeros(60, 60, dtype=torch.float64),
}


@pytest.mark.parametrize("factor", [0, 1e-9, 1e-3, 1, 100, 1e4, 1e8])
@pytest.mark.parametrize("matrix", MATRICES)
def test_values_and_vectors_are_those_of_the_sum(matrix, factor):
    S = MATRICES[matrix]
    x = factor * randn(len(S), seed=1)
    own, directions = torch.linalg.eigh(S)
    values, vectors = with_outer_product(own.clamp(min=0), directions, x)
    total = S + torch.outer(x, x)
    size = float(total.trace()) or 1.0
    assert torch.equal(values, values.sort().values)
    torch.testing.assert_close(values, torch.linalg.eigvalsh(total), rtol=0, atol=2e-14 * size)
    torch.testing.assert_close(vectors.T @ vectors, torch.eye(len(S)).double(), rtol=0, atol=2e-14)
    torch.testing.assert_close(total @ vectors, vectors * values, rtol=0, atol=2e-14 * size)


def test_a_mean_along_one_direction_moves_that_one_alone():
    values, vectors = with_outer_product(
        torch.tensor([1.0, 2, 3]).double(), torch.eye(3).double(), 2 * torch.eye(3)[1].double()
    )
    assert values.tolist() == [1, 3, 6]
    assert vectors.abs().tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]


def test_moments_that_are_not_finite_have_no_values():
    x = torch.tensor([1, torch.nan, 1], dtype=torch.float64)
    with pytest.raises(np.linalg.LinAlgError, match="some moments are not finite"):
        with_outer_product(torch.arange(3).double(), torch.eye(3).double(), x)


@pytest.mark.parametrize("exponent", [-400, -133, 67, 133, 400])
def test_huge_and_tiny_moments_have_the_values_of_those_about_one(exponent):
    S, x = MATRICES["full rank"], randn(60, seed=1)
    own, directions = torch.linalg.eigh(S)
    values, vectors = with_outer_product(own, directions, x)
    scaled, along = with_outer_product(own * 4.0**exponent, directions, x * 2.0**exponent)
    assert torch.equal(scaled, values * 4.0**exponent)
    assert torch.equal(along, vectors)
