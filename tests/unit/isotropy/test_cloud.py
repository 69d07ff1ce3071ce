import numpy as np
import pytest
import torch

from isotropy import cloud
from isotropy.cloud import read_cloud
from isotropy.rows import Dealing, Duplicates, Rows, Sample, deal_groups, deal_slices, finite_chunks, finite_rows


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


X = np.arange(12, dtype=np.float32).reshape(6, 2)


def test_rows_give_shape_type_labels_and_finite_mask(tmp_path):
    rows = Rows(X)
    assert (rows.n, rows.d, rows.dtype) == (6, 2, np.float32)
    assert rows.labels() is None
    assert Rows(X, list("aabbcc")).labels() == list("aabbcc")
    np.save(tmp_path / "x.npy", X)
    ((points, _),) = finite_rows(Rows(np.load(tmp_path / "x.npy", mmap_mode="r")))
    assert points.tolist() == X.tolist()
    x = X.copy()
    x[1, 0], x[4, 1] = np.nan, np.inf
    ((_, finite),) = finite_rows(Rows(x))
    assert finite.tolist() == [True, False, True, True, False, True]


@pytest.mark.parametrize(
    ("x", "dtype"),
    [
        (X[::-1], "float32"),
        (X[:, ::-1], "float32"),
        (np.asfortranarray(X), "float32"),
        (X.astype(">f4"), "float32"),
        (X.astype("float16"), "float32"),
        (X.astype(">f8"), "float64"),
        (X.astype("int64"), "float64"),
        (X.astype("uint8"), "float32"),
    ],
)
def test_views_and_other_types_are_converted(x, dtype):
    rows = Rows(x)
    ((points, finite),) = finite_rows(rows)
    assert rows.dtype == dtype
    assert str(points.dtype) == f"torch.{dtype}"
    np.testing.assert_array_equal(points, x)
    assert finite.all()


@pytest.mark.parametrize(
    ("x", "got"),
    [
        (torch.zeros(3, 2), r"\[3, 2\] of torch.float32"),
        (X[0], r"\[2\] of float32"),
        (X.astype(complex), r"\[6, 2\] of complex128"),
        ([[1.0, 2.0]], "list"),
    ],
    ids=["tensor", "one dimension", "complex", "list"],
)
def test_invalid_array_is_refused(x, got):
    with pytest.raises(ValueError, match=rf"Expected points as a numpy array \[n, d\] of numbers, got {got}"):
        Rows(x)


@pytest.mark.parametrize("n", [5, 7])
def test_labels_must_match_row_count(n):
    with pytest.raises(ValueError, match=f"Expected a label for each of 6 rows, got {n}: use '' for none"):
        Rows(X, ["a"] * n)


def drawn(n, size, cuts=(), seed=0):
    sample = Sample(size, 1, np.dtype(np.float64), seed)
    for rows in np.split(np.arange(n), cuts):
        sample.update(rows[:, None].astype(np.float64), rows)
    points, rows = sample.drawn_rows()
    assert points.squeeze(1).tolist() == rows.tolist()
    return rows


def test_rows_are_drawn_once_in_random_order_by_seed():
    complete = drawn(1000, 40)
    assert len(set(complete.tolist())) == 40
    torch.testing.assert_close(drawn(1000, 40, cuts=(3, 39, 41, 500)), complete)
    assert sorted(drawn(40, 40).tolist()) == list(range(40))
    assert drawn(40, 40).tolist() != list(range(40))
    assert sorted(drawn(25, 40).tolist()) == list(range(25))
    assert drawn(0, 40).tolist() == []
    assert drawn(0, 0).tolist() == []
    assert drawn(1000, 40, seed=1).tolist() != drawn(1000, 40, seed=2).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("head", [10, 3])
def test_every_row_is_equally_likely_in_sample_and_its_head(head):
    counts = torch.zeros(30)
    for seed in range(3000):
        counts[drawn(30, 10, cuts=(4, 20), seed=seed)[:head]] += 1
    expected = 3000 * head / 30
    assert (counts - expected).abs().max() < 5 * expected**0.5


ROWS = np.random.default_rng(0).standard_normal((30, 10))


def cloud_of(x, **arguments):
    return read_cloud(Rows(x, **arguments))


def test_blocks_are_balanced_and_equal_dealings_share_a_key():
    counts = np.bincount(deal_slices(np.arange(1000), 1000, 10), minlength=10)
    assert counts.min() >= 90
    assert counts.max() <= 110
    assert Dealing("rows", 100).key() == Dealing("rows", 100).key() != Dealing("rows", 101).key()
    assert deal_groups("aab", 3).key() == deal_groups("xxy", 3).key() != deal_groups("abb", 3).key()


def test_rows_of_group_share_a_block():
    groups = [f"document {row % 37}" for row in range(1000)]
    dealing = deal_groups(groups, 1000)
    blocks = dealing.blocks_of(np.arange(1000), 10)
    assert dealing.n_groups == 37
    assert len(set(zip(blocks.tolist(), groups, strict=True))) == 37
    assert len(set(blocks.tolist())) == 10
    assert deal_groups(["a", "", "a", "", "b"], 5).group_numbers.tolist() == [0, 1, 0, 2, 3]
    with pytest.raises(ValueError, match="a group for each of 3 rows, got 2"):
        deal_groups(["a", "b"], 3)
    with pytest.raises(ValueError, match="a group for each of 30 rows, got 2"):
        Rows(ROWS, row_groups=["a", "b"])


def test_duplicates_are_found_across_chunks():
    x = np.array([[1.0, 0.0], [2.0, 1.0], [1.0, -0.0], [3.0, 3.0], [2.0, 1.0]])
    duplicates = Duplicates(6)
    duplicates.update(x[:2], np.array([0, 1]))
    duplicates.update(x[2:], np.array([2, 4, 5]))  # row 3 is left out
    dealing = duplicates.dealing()
    assert (dealing.grouping, dealing.n_groups) == ("duplicates", 3)
    assert dealing.group_numbers.tolist() == [0, 1, 0, -1, 2, 1]
    duplicates = Duplicates(30)
    duplicates.update(ROWS, np.arange(30))
    assert duplicates.dealing().grouping == "rows"


@pytest.mark.parametrize("copies", [lambda x: np.repeat(x, 20, axis=0), lambda x: np.tile(x, (20, 1))])
def test_copies_do_not_change_score_or_error_much(copies):
    once, repeated = (cloud_of(x).moment_scores["isoscore_unbiased"] for x in (ROWS, copies(ROWS)))
    assert abs(repeated.value - once.value) < once.se / 2
    assert 0.6 < repeated.se / once.se < 1.7
    # Counted as independent, they would seem far more certain and less isotropic.
    assert cloud_of(copies(ROWS)).dealing.n_groups == 30


def test_given_groups_override_duplicates():
    cloud = cloud_of(np.repeat(ROWS, 2, axis=0), row_groups=[str(row // 6) for row in range(60)])
    assert (cloud.dealing.grouping, cloud.dealing.n_groups) == ("groups", 10)
    scores = cloud.moment_scores | cloud.spectrum_scores
    assert all(score.se is None for score in scores.values())  # too few groups
    assert scores["isoscore_unbiased"].value is not None


def test_duplicates_change_only_bias_corrected_values():
    x = np.concatenate([ROWS, ROWS[:5]])
    grouped = cloud_of(x)
    separate = cloud_of(x, row_groups=[""] * 35)
    assert grouped.dealing.grouping == "duplicates"
    for slug in ("isoscore", "participation_ratio", "mean_share"):
        assert grouped.moment_scores[slug].value == pytest.approx(separate.moment_scores[slug].value, rel=1e-12)
    assert torch.allclose(grouped.eigenvalues, separate.eigenvalues)
