import numpy as np
import pytest
import torch

from isotropy.rows import Rows, finite_rows

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
    with pytest.raises(ValueError, match=f"Expected a label for each of 6 rows, got {n}: empty where none"):
        Rows(X, ["a"] * n)
