import numpy as np
import pytest

from isotropy.cloud import read_cloud
from isotropy.projection import PointMapCollector, projection
from isotropy.rows import Rows


def mapped(x, size=None, seed=0):
    cloud = read_cloud(Rows(x))
    collected = PointMapCollector(min(cloud.n, size or cloud.n), seed)
    data = projection(cloud, collector=collected)
    return collected.mapped_rows(cloud.unit), data


def cloud(n=300, d=5):
    return np.random.default_rng(0).normal(size=(n, d)) * np.arange(1, d + 1) + 2


def test_map_has_coordinates_and_norms_of_rows():
    x = cloud()
    x[[7, 30], 1] = np.nan
    rows, data = mapped(x)
    assert rows.rows.tolist() == [row for row in range(300) if row not in (7, 30)]
    assert rows.xy.dtype == rows.norms.dtype == np.float32
    assert rows.norms == pytest.approx(np.linalg.norm(x[rows.rows], axis=1), rel=1e-6)
    index = {row: at for at, row in enumerate(data["rows"])}
    drawn = [(data["x"][index[row]], data["y"][index[row]]) for row in rows.rows.tolist()]
    assert rows.xy == pytest.approx(np.array(drawn), rel=1e-4, abs=1e-4)
    assert rows.unit == 1
    (first, _), (same, _), (second, _) = (mapped(cloud(), 50, seed) for seed in (0, 0, 1))
    assert len(first.rows) == len(first.xy) == 50
    assert (np.diff(first.rows) > 0).all()
    assert first.rows.tolist() == same.rows.tolist() != second.rows.tolist()
    complete, _ = mapped(cloud())
    assert first.xy == pytest.approx(complete.xy[first.rows])


@pytest.mark.parametrize("scale", [1e-200, 1e-40, 1e35, 1e150])
def test_extreme_coordinates_are_stored_in_scaled_units(scale):
    x = cloud()
    rows, _ = mapped(x * scale)
    plain, _ = mapped(x)
    assert np.frexp(rows.unit)[0] == 0.5
    assert np.isfinite(rows.xy).all()
    assert np.abs(rows.xy).max() <= 1
    assert rows.xy.astype(np.float64) * (rows.unit / scale) == pytest.approx(plain.xy, rel=1e-5, abs=1e-5)
