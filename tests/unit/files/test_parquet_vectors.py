import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.files import parquet
from isoscope.files.contents import Part
from isoscope.files.parquet import open_vectors

X = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)


@pytest.fixture
def opened(tmp_path):
    def open_columns(columns, **kwargs):
        path = tmp_path / "x.parquet"
        pq.write_table(pa.table(columns), path, **kwargs)
        return open_vectors(path)

    return open_columns


def matrix(contents, vectors, rows=7):
    return np.concatenate(list(contents.rows(vectors, rows)))


@pytest.mark.parametrize(
    "type_", [pa.list_(pa.float32()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 4), pa.list_(pa.float16())]
)
def test_list_column_is_a_matrix(opened, type_):
    x = X.astype(type_.value_type.to_pandas_dtype())
    contents = opened({"text": [f"t{i}" for i in range(30)], "x": pa.array(list(x), type_)}, row_group_size=11)
    assert contents.parts == [Part(name="x", n=30, d=4, dtype=x.dtype.name)]
    assert contents.numeric_columns == []
    blocks = list(contents.rows("x", 7))
    assert max(map(len, blocks)) == 7
    np.testing.assert_array_equal(np.concatenate(blocks), x)
    np.testing.assert_array_equal(np.concatenate(list(contents.blocks("x", 3, transpose=True))), x.T)
    assert list(contents.values("text"))[:2] == ["t0", "t1"]


def test_number_columns_are_coordinates_and_null_is_nan(opened):
    contents = opened(
        {
            "a": pa.array([1.5, None, 3]),
            "b": pa.array([1, None, 3], pa.int8()),
            "label": pa.array([0, 1, None]),
            "__index_level_0__": [5, 6, 7],
            "class": pa.array(["x", "y", "x"]).dictionary_encode(),
        }
    )
    assert (contents.parts, contents.numeric_columns) == ([], ["a", "b"])
    np.testing.assert_array_equal(matrix(contents, ["b", "a"]), [[1, 1.5], [np.nan, np.nan], [3, 3]])
    assert contents.dtype(["b", "a"]) == "float64"
    assert [annotation.name for annotation in contents.annotations] == ["class", "b", "label", "__index_level_0__"]
    assert list(contents.values("label")) == ["0", "1", ""]


def test_null_in_list_is_nan_and_ragged_column_is_ignored(opened):
    contents = opened({"x": pa.array([[1, None], [2, 3]], pa.list_(pa.int64()))})
    np.testing.assert_array_equal(matrix(contents, "x"), [[1, np.nan], [2, 3]])
    contents = opened({"input_ids": [[1, 2], [3]], "x": [[0.5, 1.5], [2.5, 3.5]]})
    assert contents.parts == [Part(name="x", n=2, d=2, dtype="float64")]


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"x": [[1.0, 2], [3.0]]}, r"Row 2 of the column 'x' holds a list of 1 numbers, expected 2 .* in the first"),
        ({"x": [[1.0, 2], None]}, "Row 2 of the column 'x' holds no list, expected 2 numbers"),
        ({"x": [[1.0]] * 9 + [[]]}, "Row 10 of the column 'x' holds a list of 0 numbers, expected 1"),
        ({"x": pa.array([None, [1.0]])}, "Row 1 of the column 'x' holds no numbers"),
        ({"x": [[[1.0]]]}, r"No column .* holds numbers or lists of numbers, found 'x: list<.*list<.*': write"),
        ({"x": ["a"]}, "No column of the parquet file holds numbers or lists of numbers, found 'x: string'"),
        ({"x": pa.array([], pa.float32())}, "The parquet file has columns but no rows"),
        ({}, "The parquet file has columns but no rows"),
    ],
)
def test_columns_without_matrix_are_refused(opened, columns, sentence):
    with pytest.raises(InvalidError, match=sentence):
        opened(columns)


def test_missing_vector_missing_rows_and_invalid_text_are_refused(opened):
    contents = opened({"x": pa.array([[1.0, 2.0]] * 20 + [None], pa.list_(pa.float32(), 2))})
    with pytest.raises(InvalidError, match="Row 21 of the column 'x' holds no list"):
        matrix(contents, "x")
    contents = opened({"a": [0.5] * 10})
    opened({"a": [0.5] * 8})
    with pytest.raises(InvalidError, match="declares 10 rows, but holds 8: it was altered"):
        matrix(contents, ["a"])
    with pytest.raises(InvalidError, match="holds a text that is not UTF-8"):
        opened({"a": [0.5] * 10, "word": pa.array([b"w\xaa"] * 10).view(pa.string())})


@pytest.mark.slow
def test_parquet_bomb_and_too_many_rows_are_refused(opened, monkeypatch):
    constant = pa.array(np.zeros(16_384 * 2000, np.float32))
    with pytest.raises(TooLargeError, match=r"declares 131,072,000 bytes in [\d,]+, more than 200 to 1"):
        opened({"x": pa.FixedSizeListArray.from_arrays(constant, 16_384)}, compression="zstd")
    monkeypatch.setattr(parquet, "MAX_ROWS", 9)
    with pytest.raises(TooLargeError, match="The file has 10 rows in 1 groups, expected at most 9"):
        opened({"a": [0.5] * 10})


def test_duplicate_column_names_are_refused(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), path)
    with pytest.raises(InvalidError, match="2 columns are called 'a'"):
        open_vectors(path)
