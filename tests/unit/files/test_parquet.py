import decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.files import parquet
from isoscope.files.contents import Part
from isoscope.files.parquet import open_table, open_vectors


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.parquet"


def read(path):
    table = open_table(path)
    return table.columns, [list(row) for row in table.rows()]


def test_scalar_columns_are_read_and_others_left_out(path):
    table = pa.table(
        {
            "text": pa.array(["a", "", None]),
            "label": pa.array([1, 0, None], pa.int8()),
            "score": pa.array([0.5, float("nan"), None]),
            "flag": pa.array([True, False, None]),
            "class": pa.array(["x", "y", "x"]).dictionary_encode(),
            "a.b": pa.array(["dotted", "name", "too"]),
        }
    )
    pq.write_table(table, path)
    assert read(path) == (
        ["text", "label", "score", "flag", "class", "a.b"],
        [["a", 1, 0.5, True, "x", "dotted"], [None, 0, None, False, "y", "name"], [None, None, None, None, "x", "too"]],
    )
    other_columns = {"list": [[1.0]], "struct": [{"a": 1}], "bytes": [b"x"], "money": [decimal.Decimal("1.5")]}
    pq.write_table(pa.table({"keep": [1], **other_columns}), path)
    assert read(path) == (["keep"], [[1]])


STRING, INT = pa.string(), pa.int32()


def answers(texts=STRING, starts=INT, **columns):
    return pa.struct({"text": pa.list_(texts), "answer_start": pa.list_(starts), **columns})


@pytest.mark.parametrize(
    "type_", [answers(), answers(pa.large_string(), pa.int64()), answers(exact=pa.list_(pa.list_(pa.bool_())))]
)
def test_answers_are_read_as_json_text(path, type_):
    values = [{"text": ["b", "c"], "answer_start": [2, 9]}, None, {"text": [], "answer_start": []}]
    pq.write_table(pa.table({"answers": pa.array(values, type_), "q": ["x", "y", "z"]}), path)
    text = '{"text": ["b", "c"], "answer_start": [2, 9]}'
    assert read(path) == (["answers", "q"], [[text, "x"], [None, "y"], [None, "z"]])


@pytest.mark.parametrize(
    "type_",
    [
        answers(pa.binary()),
        answers(starts=pa.float32()),
        answers(pa.list_(pa.string())),
        pa.struct({"text": pa.string(), "answer_start": pa.int32()}),
        pa.struct({"text": pa.list_(pa.string())}),
    ],
)
def test_other_structs_are_left_out(path, type_):
    pq.write_table(pa.table({"keep": [1], "answers": pa.array([None], type_)}), path)
    assert read(path) == (["keep"], [[1]])


def test_invalid_answers_are_refused_by_row(path):
    good, bad = {"text": ["b"], "answer_start": [2]}, {"text": ["b", None], "answer_start": [2, 3]}
    pq.write_table(pa.table({"answers": pa.array([good] * 5000 + [bad], answers())}), path)
    with pytest.raises(InvalidError, match="Row 5,001 holds no answers under 'answers': expected texts that are not "):
        read(path)
    empty_answers = [{"text": None, "answer_start": None}, {"text": [], "answer_start": []}, None]
    pq.write_table(pa.table({"answers": pa.array(empty_answers, answers())}), path)
    assert list(open_table(path).rows()) == [[None], [None], [None]]


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (pa.table({"list": [[1.0]]}), "No column of the parquet file holds text or numbers"),
        (pa.table({}), "No column of the parquet file holds text or numbers"),
        (pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), "2 columns are called 'a': give"),
    ],
)
def test_file_without_usable_columns_is_refused(path, table, sentence):
    pq.write_table(table, path)
    with pytest.raises(InvalidError, match=sentence):
        open_table(path)


def test_too_many_rows_or_groups_are_refused(path, monkeypatch):
    pq.write_table(pa.table({"a": list(range(10))}), path, row_group_size=1)
    monkeypatch.setattr(parquet, "MAX_TABLE_ROWS", 9)
    with pytest.raises(TooLargeError, match="The file has 10 rows in 10 groups, expected at most 9 in 10,000"):
        open_table(path)


@pytest.mark.parametrize("extent", [5, 0.5, 0.9, -1])
def test_truncated_file_is_refused(path, extent):
    pq.write_table(pa.table({"a": ["some text"] * 100}), path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * extent) if isinstance(extent, float) else extent])
    with pytest.raises(InvalidError, match=r"The parquet file cannot be read \(.*\): it was cut off, altered"):
        read(path)


def test_arrow_memory_error_becomes_memory_error(path, monkeypatch):
    def exhausted(*_, **__):
        raise pa.ArrowMemoryError

    monkeypatch.setattr(pq, "ParquetFile", exhausted)
    with pytest.raises(MemoryError):
        open_table(path)


def test_damaged_page_is_refused_on_read(path):
    pq.write_table(pa.table({"a": [f"text {i}" for i in range(5000)]}), path, compression="zstd")
    content = bytearray(path.read_bytes())
    content[40:400] = bytes(360)
    path.write_bytes(content)
    with pytest.raises(InvalidError, match="The parquet file cannot be read"):
        read(path)


X = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)


def opened(tmp_path, columns, **kwargs):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table(columns), path, **kwargs)
    return open_vectors(path)


def matrix(contents, vectors, rows=7):
    return np.concatenate(list(contents.rows(vectors, rows)))


@pytest.mark.parametrize(
    "type_", [pa.list_(pa.float32()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 4), pa.list_(pa.float16())]
)
def test_list_column_is_a_matrix(tmp_path, type_):
    x = X.astype(type_.value_type.to_pandas_dtype())
    contents = opened(
        tmp_path, {"text": [f"t{i}" for i in range(30)], "x": pa.array(list(x), type_)}, row_group_size=11
    )
    assert contents.parts == [Part(name="x", n=30, d=4, dtype=x.dtype.name)]
    assert contents.numeric_columns == []
    blocks = list(contents.rows("x", 7))
    assert max(map(len, blocks)) == 7
    np.testing.assert_array_equal(np.concatenate(blocks), x)
    np.testing.assert_array_equal(np.concatenate(list(contents.blocks("x", 3, transpose=True))), x.T)
    assert list(contents.values("text"))[:2] == ["t0", "t1"]


def test_number_columns_are_coordinates_and_null_is_nan(tmp_path):
    contents = opened(
        tmp_path,
        {
            "a": pa.array([1.5, None, 3]),
            "b": pa.array([1, None, 3], pa.int8()),
            "label": pa.array([0, 1, None]),
            "__index_level_0__": [5, 6, 7],
            "class": pa.array(["x", "y", "x"]).dictionary_encode(),
        },
    )
    assert (contents.parts, contents.numeric_columns) == ([], ["a", "b"])
    np.testing.assert_array_equal(matrix(contents, ["b", "a"]), [[1, 1.5], [np.nan, np.nan], [3, 3]])
    assert contents.dtype(["b", "a"]) == "float64"
    assert [annotation.name for annotation in contents.annotations] == ["class", "b", "label", "__index_level_0__"]
    assert list(contents.values("label")) == ["0", "1", ""]


def test_null_in_list_is_nan_and_ragged_column_is_ignored(tmp_path):
    contents = opened(tmp_path, {"x": pa.array([[1, None], [2, 3]], pa.list_(pa.int64()))})
    np.testing.assert_array_equal(matrix(contents, "x"), [[1, np.nan], [2, 3]])
    contents = opened(tmp_path, {"input_ids": [[1, 2], [3]], "x": [[0.5, 1.5], [2.5, 3.5]]})
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
def test_columns_without_matrix_are_refused(tmp_path, columns, sentence):
    with pytest.raises(InvalidError, match=sentence):
        opened(tmp_path, columns)


def test_missing_vector_missing_rows_and_invalid_text_are_refused(tmp_path):
    contents = opened(tmp_path, {"x": pa.array([[1.0, 2.0]] * 20 + [None], pa.list_(pa.float32(), 2))})
    with pytest.raises(InvalidError, match="Row 21 of the column 'x' holds no list"):
        matrix(contents, "x")
    contents = opened(tmp_path, {"a": [0.5] * 10})
    opened(tmp_path, {"a": [0.5] * 8})
    with pytest.raises(InvalidError, match="declares 10 rows, but holds 8: it was altered"):
        matrix(contents, ["a"])
    with pytest.raises(InvalidError, match="holds a text that is not UTF-8"):
        opened(tmp_path, {"a": [0.5] * 10, "word": pa.array([b"w\xaa"] * 10).view(pa.string())})


@pytest.mark.slow
def test_parquet_bomb_and_too_many_rows_are_refused(tmp_path, monkeypatch):
    constant = pa.array(np.zeros(16_384 * 2000, np.float32))
    with pytest.raises(TooLargeError, match=r"declares 131,072,000 bytes in [\d,]+, more than 200 to 1"):
        opened(tmp_path, {"x": pa.FixedSizeListArray.from_arrays(constant, 16_384)}, compression="zstd")
    monkeypatch.setattr(parquet, "MAX_ROWS", 9)
    with pytest.raises(TooLargeError, match="The file has 10 rows in 1 groups, expected at most 9"):
        opened(tmp_path, {"a": [0.5] * 10})


def test_duplicate_column_names_are_refused(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), path)
    with pytest.raises(InvalidError, match="2 columns are called 'a'"):
        open_vectors(path)
