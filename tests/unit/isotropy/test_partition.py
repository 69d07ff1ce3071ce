import math

import pytest
import torch

from isotropy.partition import PartitionFunction


def partition(x, eigenvectors=None):
    function = PartitionFunction(torch.eye(x.shape[1]).double() if eigenvectors is None else eigenvectors)
    function.update(x)
    return function


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_overflowing_sums_have_a_logarithm(dtype):
    function = partition(torch.tensor([[300.0, 0.0], [300.0, 0.0]], dtype=dtype))
    assert function.log_z.dtype == torch.float64
    assert function.log_isotropy().value == pytest.approx(-600, rel=1e-6)


def test_underflowing_ratio_states_its_logarithm():
    function = partition(torch.tensor([[1e12, 0.0]]))
    assert function.log_isotropy().value == pytest.approx(-2e12, rel=1e-6)
    assert function.isotropy().value is None
    assert function.isotropy().reason == (
        "The partition ratio is exp(-2e+12), too small for a number: the points are too long for this measure. "
        "Scale them all by one factor."
    )
    assert partition(torch.tensor([[354.0]]).double()).isotropy().value == pytest.approx(math.exp(-708), rel=1e-9)
    assert partition(torch.tensor([[355.0]]).double()).isotropy().value is None


@pytest.mark.parametrize("x", [torch.zeros(5, 3), torch.full((5, 3), 1e-12)])
def test_points_near_zero_are_isotropic(x):
    assert partition(x).isotropy().value == pytest.approx(1)


@pytest.mark.parametrize(
    ("x", "reason"),
    [
        (torch.ones(0, 3), "needs at least 1 point; there is none."),
        *(
            (torch.tensor([[1.0, bad], [1.0, 0.0]]), "is not finite: some points are NaN, infinite or too large.")
            for bad in (math.nan, math.inf, -math.inf)
        ),
    ],
)
def test_partition_is_undefined_for_empty_or_nonfinite_points(x, reason):
    function = partition(x)
    assert function.log_isotropy().reason == function.isotropy().reason == f"The partition function {reason}"


@pytest.mark.parametrize("eigenvectors", [torch.ones(3).double(), torch.ones(3, 2).double(), torch.eye(3)])
def test_invalid_eigenvectors_are_refused(eigenvectors):
    with pytest.raises(ValueError, match=r"Expected eigenvectors as float64 \[d, d\], got \[3.*\] of torch.*X\^T X"):
        PartitionFunction(eigenvectors)


def test_mismatched_points_and_eigenvectors_are_refused():
    function = partition(torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"floating tensor \[n, 3\], got \[4, 2\]"):
        function.update(torch.ones(4, 2))
    with pytest.raises(ValueError, match="Expected sums over the same eigenvectors, got others: find them once"):
        function.merge(partition(torch.ones(2, 3), -torch.eye(3).double()))
