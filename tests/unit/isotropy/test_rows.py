import numpy as np
import pytest
import torch

from isotropy.rows import Rows, finite_rows

X = np.arange(12, dtype=np.float32).reshape(6, 2)


def test_rows_know_their_shape_and_type():
    rows = Rows(X)
    assert (rows.n, rows.d, rows.dtype) == (6, 2, np.float32)
    assert rows.labels() is None
    assert Rows(X, list("aabbcc")).labels() == list("aabbcc")


@pytest.mark.parametrize("x", [X[::-1], X[:, ::-1], np.asfortranarray(X)], ids=["rows", "columns", "fortran"])
def test_views_in_any_order_come_as_they_are_meant(x):
    (chunk,) = Rows(x).chunks()
    np.testing.assert_array_equal(chunk, x)
    assert torch.from_numpy(chunk).dtype == torch.float32


def test_a_file_opened_for_reading_only_is_read(tmp_path):
    np.save(tmp_path / "x.npy", X)
    ((rows, finite),) = finite_rows(Rows(np.load(tmp_path / "x.npy", mmap_mode="r")), progress=lambda _: None)
    assert rows.tolist() == X.tolist()
    assert finite.all()


def test_rows_with_nan_or_infinity_are_flagged_and_progress_is_told():
    x = X.copy()
    x[1, 0], x[4, 1] = np.nan, np.inf
    told = []
    ((_, finite),) = finite_rows(Rows(x), told.append)
    assert finite.tolist() == [True, False, True, True, False, True]
    assert told == [6]


@pytest.mark.parametrize(
    ("x", "got"),
    [
        (torch.zeros(3, 2), r"\[3, 2\] of torch.float32"),
        (X[0], r"\[2\] of float32"),
        (X.astype(int), r"\[6, 2\] of int64"),
        (X.astype(">f4"), r"\[6, 2\] of >f4"),
        ([[1.0, 2.0]], "list"),
    ],
    ids=["tensor", "one dimension", "integers", "bytes of another machine", "list"],
)
def test_anything_but_an_array_of_points_is_refused(x, got):
    with pytest.raises(
        ValueError, match=rf"Expected points as a numpy array \[n, d\] of float32 or float64, got {got}"
    ):
        Rows(x)


@pytest.mark.parametrize("n", [5, 7])
def test_a_label_is_needed_for_each_row(n):
    with pytest.raises(ValueError, match=f"Expected a label for each of 6 rows, got {n}: empty where none"):
        Rows(X, ["a"] * n)
