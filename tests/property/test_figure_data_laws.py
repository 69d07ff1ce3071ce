import numpy as np
import pytest
from hypothesis import given

from isotropy.cloud import read_cloud
from isotropy.isoscore import isoscore
from isotropy.projection import projection
from isotropy.rows import Rows
from isotropy.sample_size import sample_size
from tests.property.clouds import clouds, rotation, seeds, solved_clouds


@given(solved_clouds())
def test_projection_has_three_largest_variances(solved):
    points, spectrum = solved
    data = projection(read_cloud(Rows(points.numpy())))
    largest = [*spectrum[:3].tolist(), 0.0, 0.0][:3]
    variances = [np.var(data[axis], ddof=1) for axis in "xyz"]
    assert variances == pytest.approx(largest, rel=1e-3, abs=1e-9 * float(spectrum[0]))
    assert data["shares"] == pytest.approx([share / float(spectrum.sum()) for share in largest], abs=1e-9)


@given(clouds(max_n=80), seeds)
def test_curve_ends_at_isoscore_and_is_invariant(points, seed):
    data = sample_size(read_cloud(Rows(points.numpy())))
    assert data["isoscore"]["mean"][-1] == pytest.approx(isoscore(points).value, abs=1e-9)
    moved = sample_size(read_cloud(Rows((5 + 1e-3 * points @ rotation(points.shape[1], seed)).numpy())))
    assert moved["rows"] == data["rows"]
    curves, other_curves = ((line["isoscore"], *line["isoscore_star"]) for line in (data, moved))
    for curve, other_curve in zip(curves, other_curves, strict=True):
        assert other_curve["mean"] == pytest.approx(curve["mean"], abs=1e-6)
        assert all(0 <= value <= 1 for value in curve["mean"])
