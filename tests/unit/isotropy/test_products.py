import math

import pytest
import torch

from isotropy.products import Products
from tests.points import randn

PRECISIONS = [torch.bfloat16, torch.float32, torch.float64]


def squares_of(x):
    return (x.double()[:, None] - x.double()).square().sum(2).fill_diagonal_(math.inf)


def bounds_of(x, precision):
    rows = torch.arange(len(x))
    search = Products(x, precision, len(x) - 1)
    return search._bounds_of(rows)[:, : len(x)].double() + search._bases[:, None]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", [2, 500])
def test_bounds_do_not_exceed_squared_distances(precision, dtype, d):
    x = (randn(60, d) * torch.logspace(-6, -1, 60, dtype=torch.float64)[:, None]).to(dtype)
    x = torch.cat([x, x * (1 + 1e-6)])
    assert bool((bounds_of(x, precision) <= squares_of(x)).all())


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "x",
    [torch.eye(40), (randn(40, 300) > 0) / 16, 1 + (9 * randn(40, 5)).round() / 64, torch.ones(9, 2)],
    ids=["one-hot", "binary", "counts", "equal"],
)
def test_bounds_of_scaled_small_integers_are_exact(precision, dtype, x):
    assert torch.equal(bounds_of(x.to(dtype), precision), squares_of(x))


@pytest.mark.parametrize("far", [2**-30, 1 + 2**-12])
def test_one_other_coordinate_makes_all_bounds_inexact(far):
    x = torch.eye(40)
    x[7, 7] = far
    assert bool((bounds_of(x, torch.float32) < squares_of(x)).fill_diagonal_(True).all())


@pytest.mark.parametrize("precision", PRECISIONS)
def test_lower_precisions_report_unsettled_rows(precision):
    rows = torch.arange(200)
    # Two clusters, the second too tight for products in lower precision to separate its points.
    x = torch.cat([randn(100, 4) / 8, 1 + 1e-12 * randn(100, 4, seed=1)])
    distances, indices, settled = Products(x, precision, 22).nearest(rows, 5)
    assert settled[100:].tolist() == [precision == torch.float64] * 100
    assert settled[:100].all()
    squares, nearest = squares_of(x).sort(dim=1, stable=True)
    torch.testing.assert_close(distances[settled], squares[settled, :5].sqrt(), rtol=1e-12, atol=0)
    assert torch.equal(indices[settled], nearest[settled, :5])
