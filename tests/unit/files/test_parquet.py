import decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.files import parquet
from isoscope.files.parquet import open_table


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
