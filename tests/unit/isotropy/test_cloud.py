import numpy as np
import pytest
import torch

from isotropy import cloud
from isotropy.cloud import read_cloud
from isotropy.rows import Rows, finite_chunks


@pytest.fixture
def x():
    x = np.random.default_rng(0).normal(size=(400, 5)).astype(np.float32)
    x[[3, 100, 399], [0, 1, 4]] = np.nan
    x[[7, 8]] = 0
    return x


def test_nonfinite_rows_are_left_out(x):
    points = read_cloud(Rows(x))
    finite = np.isfinite(x).all(axis=1)
    assert (points.n, points.d, points.n_left_out) == (397, 5, 3)
    np.testing.assert_allclose(points.moments.mean, x[finite].astype(float).mean(0), rtol=1e-12)
    assert (points.cosines.n, points.cosines.zero_rows) == (395, 2)
    assert sorted(points.rows.tolist()) == finite.nonzero()[0].tolist()
    np.testing.assert_array_equal(points.sample, x[points.rows])


def test_sample_is_as_large_as_limit(x, monkeypatch):
    monkeypatch.setattr(cloud, "SAMPLE_ROWS", 397)
    assert len(read_cloud(Rows(x)).sample) == 397
    monkeypatch.setattr(cloud, "SAMPLE_ROWS", 50)
    points = read_cloud(Rows(x), seed=1)
    assert len(points.sample) == len(set(points.rows.tolist())) == 50
    np.testing.assert_array_equal(points.sample, x[points.rows])


def test_eigenvalues_and_energies_match_numpy(x):
    far = (1000 + np.random.default_rng(0).normal(size=(500, 3)) * [1, 1e-3, 0]).astype(np.float32)
    expected = np.linalg.eigvalsh(np.cov(far.astype(float).T))[::-1]
    np.testing.assert_allclose(read_cloud(Rows(far)).eigenvalues, expected, rtol=1e-7, atol=1e-13)
    finite = x[np.isfinite(x).all(axis=1)].astype(float)
    expected = np.linalg.eigvalsh(finite.T @ finite / len(finite))[::-1]
    np.testing.assert_allclose(read_cloud(Rows(x)).energies, expected, rtol=1e-9)
    np.testing.assert_array_equal(read_cloud(Rows(x[:2])).energies[2:], 0)


def test_pairs_bars_and_neighbors_use_first_sample_rows(x, monkeypatch):
    monkeypatch.setattr(cloud, "PAIR_ROWS", 30)
    monkeypatch.setattr(cloud, "BARCODE_ROWS", 20)
    points = read_cloud(Rows(x))
    assert torch.equal(points.pair_rows, points.sample[:30])
    assert len(points.neighbors.indices) == 30
    assert len(points.bars) == 19


def test_duplicates_count_once_and_empty_cloud_is_read():
    x = np.repeat(np.random.default_rng(0).normal(size=(40, 3)), 3, axis=0)
    assert len(read_cloud(Rows(x)).neighbors.indices) == 40
    points = read_cloud(Rows(np.empty((0, 3))))
    assert (points.n, len(points.sample), points.moment_scores["isoscore"].value) == (0, 0, None)


def test_labels_follow_sample_or_all_rows(x):
    names = ["even" if i % 2 == 0 else "odd" for i in range(400)]
    points = read_cloud(Rows(x, names))
    codes = points.labels.codes
    assert [points.labels.names[code] for code in codes.tolist()] == [names[row] for row in points.rows.tolist()]
    assert read_cloud(Rows(x)).labels is None
    names = [f"class {i % 7}" for i in range(400)]
    labels = read_cloud(Rows(x, names)).all_labels
    assert [labels.names[code] for code in labels.codes.tolist()] == names
    assert read_cloud(Rows(x)).all_labels is None


def test_unlabelled_rows_belong_to_no_class(x):
    names = ["" if i % 4 == 0 else "ab"[i % 2] for i in range(400)]
    points = read_cloud(Rows(x, names))
    rows, codes = points.labels.drop_unlabeled(points.sample)
    expected = [row for row in points.rows.tolist() if names[row]]
    np.testing.assert_array_equal(rows, x[expected])
    assert [points.labels.names[code] for code in codes.tolist()] == [names[row] for row in expected]
    head, _ = points.labels.drop_unlabeled(points.sample[:10])
    assert len(head) == sum(bool(names[row]) for row in points.rows[:10].tolist())


def test_progress_is_reported_and_rows_can_be_reread(x):
    progress = []
    points = read_cloud(Rows(x), progress=progress.append)
    assert sum(progress) == 400
    again = torch.cat([chunk for chunk, _, _ in finite_chunks(points.points)])
    np.testing.assert_array_equal(again, x[np.isfinite(x).all(axis=1)])
