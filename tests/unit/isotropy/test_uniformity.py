import math

import pytest
import torch

from isotropy.uniformity import uniformity


def test_uniformity_matches_hand_computation():
    assert uniformity(torch.tensor([[1.0, 2.0], [-3.0, -6.0]])).value == pytest.approx(-8, rel=1e-5)
    # Squared distances 2, 2 and 4.
    x = torch.tensor([[1.0, 0.0], [0.0, 5.0], [-2.0, 0.0]]).double()
    assert uniformity(x).value == pytest.approx(math.log((2 * math.exp(-4) + math.exp(-8)) / 3), rel=1e-12)
    assert uniformity(torch.full((2000, 3), 0.1)).value == pytest.approx(0, abs=1e-12)
    x = torch.randn(1500, 400, generator=torch.Generator().manual_seed(0))
    assert uniformity(x).value == pytest.approx(-4 + 8 / 400, abs=1e-3)
    x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).double()
    assert uniformity(x).value == pytest.approx(math.log((1 + 2 * math.exp(-4)) / 3), rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e30])
def test_uniformity_does_not_depend_on_scale_or_precision(dtype, scale):
    x = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    assert uniformity(x.to(dtype)).value == pytest.approx(uniformity(x.to(dtype).float()).value, rel=1e-12)
    assert uniformity(x * scale).value == pytest.approx(uniformity(x).value, rel=1e-6)


@pytest.mark.parametrize(("n", "rows", "expected"), [(0, 0, "are 0"), (3, 1, "is 1"), (3, 0, "are 0")])
def test_uniformity_needs_two_nonzero_rows(n, rows, expected):
    x = torch.zeros(n, 2)
    x[:rows] = 1
    assert uniformity(x).value is None
    assert uniformity(x).reason == f"Uniformity needs at least 2 rows that are not zero; there {expected}."


def test_nonfinite_points_leave_uniformity_undefined():
    for bad in (math.nan, math.inf):
        score = uniformity(torch.tensor([[1.0, bad], [1.0, 0.0]]))
        assert score.reason == "Uniformity is not finite: some points are NaN or infinite."
    with pytest.raises(ValueError, match=r"Expected points as a floating tensor \[n, d\], got \[3\] of torch.int64"):
        uniformity(torch.arange(3))
