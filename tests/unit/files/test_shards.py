import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isoscope.core.errors import InvalidError, UnsupportedFormatError
from isoscope.files.matrix import Inspection, inspect, open_matrix
from isoscope.files.selection import Selection
from isoscope.files.upload import NamedFile, Upload, open_upload

X = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)


def upload(tmp_path, **contents):
    """Write files and name them in the given order."""
    files = []
    for name, content in contents.items():
        filename = name.replace("_", ".")
        path = tmp_path / filename
        if isinstance(content, str):
            path.write_text(content)
        elif isinstance(content, dict):
            with path.open("wb") as stream:
                np.savez(stream, **content)
        else:
            np.save(path, content)
        files.append(NamedFile(path, filename))
    return Upload(tuple(files))


def test_shards_are_joined_in_file_order(tmp_path):
    shards = upload(tmp_path, a_npy=X[:7], b_npy=X[7:8], c_npy=X[8:])
    inspection = inspect(shards)
    assert (inspection.n, inspection.d, inspection.dtype) == (30, 4, "float32")
    matrix = open_matrix(shards, inspection.selection)
    np.testing.assert_array_equal(np.concatenate(list(matrix.chunks(5))), X)
    transposed = open_matrix(shards, Selection(vectors="array", transpose=True))
    assert (transposed.n, transposed.d) == (4, 30)
    np.testing.assert_array_equal(np.concatenate(list(transposed.chunks(3))), X.T)


def test_names_and_labels_are_joined_across_shards(tmp_path):
    words = np.array([f"w{i}" for i in range(30)])
    shards = upload(
        tmp_path,
        a_npz={"x": X[:10], "word": words[:10], "label": np.arange(10) % 2, "only here": np.arange(10)},
        b_npz={"x": X[10:], "word": words[10:], "label": 2 + np.arange(20) % 2},
    )
    _, contents = open_upload(shards)
    counts = {annotation.name: (annotation.n, annotation.n_distinct) for annotation in contents.annotations}
    assert counts == {"word": (30, 30), "label": (30, 4)}
    matrix = open_matrix(shards, Selection(vectors="x", names="word", labels="label"))
    assert list(matrix.contents.values("word")) == words.tolist()
    assert matrix.labels() == [str(i % 2) for i in range(10)] + [str(2 + i % 2) for i in range(20)]
    shards = upload(tmp_path, a_csv="word,x,y\nking,1.5,2\n", b_csv="word,x,y\nqueen,3.5,4\npawn,5.5,6\n")
    matrix = open_matrix(shards, Selection(vectors=["y", "x"], names="word"))
    assert np.concatenate(list(matrix.chunks())).tolist() == [[2, 1.5], [4, 3.5], [6, 5.5]]
    assert list(matrix.contents.values("word")) == ["king", "queen", "pawn"]


@pytest.mark.parametrize(
    ("contents", "sentence"),
    [
        ({"a_npy": X, "b_npy": X[:, :3]}, r"b\.npy holds 'array' of 3 dimensions \(float32\), but a\.npy holds"),
        ({"a_npy": X, "b_npy": X.astype("f8")}, r"b\.npy holds 'array' of 4 dimensions \(float64\)"),
        ({"a_npz": {"x": X}, "b_npz": {"y": X}}, r"b\.npz holds 'y' of 4 dimensions"),
        (
            {"a_csv": "x,y\n1.5,2\n", "b_csv": "x,z\n1.5,2\n"},
            r"b\.csv holds 2 columns of numbers, 'x', 'z', but a\.csv holds 2 columns of numbers, 'x', 'y'",
        ),
        ({"a_npy": X, "b_csv": "x,y\n1.5,2\n"}, r"b\.csv is a csv file, but a\.npy is npy: .* need the same format"),
        ({"a_csv": "x,y\n1.5,2\n", "b_csv": "x,y\n"}, r"^b\.csv: The file has a header but no rows"),
    ],
)
def test_mismatched_shards_are_refused_by_name(tmp_path, contents, sentence):
    with pytest.raises(InvalidError, match=sentence):
        open_upload(upload(tmp_path, **contents))


def test_all_columns_are_compared_and_errors_name_file(tmp_path):
    columns = [f"c{i}" for i in range(11)]
    row = ",".join(["1.5"] * 12)
    tables = {f"{name}_csv": f"{','.join([*columns, last])}\n{row}\n" for name, last in (("a", "x"), ("b", "y"))}
    with pytest.raises(InvalidError, match=r"b\.csv holds 12 columns of numbers, .* and 2 more, but a\.csv holds 12"):
        open_upload(upload(tmp_path, **tables))
    shards = upload(tmp_path, a_csv="x,y\n1.5,2\n", b_csv="x,y\n1.5,2\n2.5,3\nabc,3\n")
    with pytest.raises(InvalidError, match=r"^b\.csv: Line 4, column 1 \('x'\) holds 'abc' where a number belongs"):
        inspect(shards)


WORDS = ["king", "queen", "pawn", "rook", "a b", "é"]
LABELS = [1, 1, 0, 0, 1, 0]


def table(separator):
    lines = [f"{word}{separator}{label}" for word, label in zip(WORDS, LABELS, strict=True)]
    return "\n".join([f"word{separator}label", *lines]).encode()


def write(folder, filename):
    path = folder / filename
    if path.suffix == ".jsonl":
        rows = zip(WORDS, LABELS, strict=True)
        path.write_text("".join(json.dumps({"word": word, "label": label}) + "\n" for word, label in rows))
    elif path.suffix == ".parquet":
        pq.write_table(pa.table({"word": WORDS, "label": pa.array([*LABELS[:5], None])}), path)
    else:
        path.write_bytes(table("," if path.suffix == ".csv" else "\t"))
    return NamedFile(path, filename)


@pytest.fixture
def vectors(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, X[:6])
    return NamedFile(path, "x.npy")


def second(tmp_path, filename, content):
    path = tmp_path / filename
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content)
    return NamedFile(path, filename)


@pytest.mark.parametrize("filename", ["t.csv", "t.tsv", "t.jsonl", "t.parquet"])
def test_second_table_names_and_labels_rows(tmp_path, vectors, filename):
    upload = Upload((vectors,), write(tmp_path, filename))
    inspection = inspect(upload)
    assert inspection.selection == Selection(vectors="array", names="word", labels="label")
    assert [(row.name, row.label) for row in inspection.preview[:3]] == [("king", "1"), ("queen", "1"), ("pawn", "0")]
    assert Inspection.model_validate_json(inspection.model_dump_json()) == inspection
    Selection(vectors="array", names="label", labels="word").check(inspection)
    matrix = open_matrix(upload, inspection.selection)
    assert list(matrix.contents.values("word")) == WORDS
    assert matrix.labels() == [*map(str, LABELS[:5]), "" if filename.endswith("parquet") else "0"]


def test_array_or_lines_are_one_column(vectors, tmp_path):
    array = inspect(Upload((vectors,), second(tmp_path, "labels.npy", np.array(LABELS))))
    assert [(annotation.name, annotation.n_distinct) for annotation in array.annotations] == [("array", 2)]
    lines = Upload((vectors,), second(tmp_path, "words.txt", "\n".join([*WORDS[:5], ""]).encode() + b"\r\n"))
    assert list(open_matrix(lines, Selection(vectors="array")).contents.values("line")) == [*WORDS[:5], ""]
    upload = Upload((vectors,), second(tmp_path, "w.txt", b"a\nb\nc\nd\n"))
    matrix = open_matrix(upload, Selection(vectors="array", names="line", transpose=True))
    assert (matrix.n, list(matrix.contents.values("line"))) == (4, ["a", "b", "c", "d"])
    with pytest.raises(InvalidError, match="'line' has 4 values, but the matrix has 6 rows"):
        open_matrix(upload, Selection(vectors="array", names="line"))


def test_equal_column_names_get_filename(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("word,x,y\n" + "".join(f"own{i},{i}.5,{i}.25\n" for i in range(6)))
    table_file = second(tmp_path, "more.csv", b"word,x,group\n" + b"a,b,0\nc,d,1\n" * 3)
    upload = Upload((NamedFile(path, "own.csv"),), table_file)
    inspection = inspect(upload)
    columns = ["word (more.csv)", "x (more.csv)", "group", "word"]
    assert [annotation.name for annotation in inspection.annotations] == columns
    matrix = open_matrix(upload, Selection(vectors=["x", "y"], names="word", labels="x (more.csv)"))
    assert list(matrix.contents.values("word")) == [f"own{i}" for i in range(6)]
    assert matrix.labels() == ["b", "d"] * 3


@pytest.mark.parametrize(
    ("filename", "content", "error", "sentence"),
    [
        ("l.txt", b"a\nb\n", InvalidError, r"l\.txt: expected a row for each vector, 6, got 2\. Check that"),
        ("l.csv", b"king\n" * 6, InvalidError, r"got 5\. .* a line with the names of the columns stands above a table"),
        ("l.csv", b"1\n" * 6, InvalidError, r"l\.csv: Line 1 should name the columns, but holds the number 1"),
        ("l.csv", b"a,b\nc\n", InvalidError, r"l\.csv: Line 2 has another number of columns"),
        ("l.npy", X, InvalidError, r"l\.npy: expected an array of one dimension, of text or whole numbers"),
        ("l.npz", b"PK\x03\x04" + bytes(26), UnsupportedFormatError, r"l\.npz: Expected \.npy, .* got a npz file"),
        ("l.parquet", b"PAR1PAR1", InvalidError, r"l\.parquet: The parquet file cannot be read"),
        ("l.jsonl", b'{"a": [1]}\n' * 6, InvalidError, r"l\.jsonl: No key of the objects holds text or numbers"),
        ("l.txt", b"", InvalidError, r"l\.txt: The file is empty"),
    ],
)
def test_unfit_second_file_is_refused_by_name(vectors, tmp_path, filename, content, error, sentence):
    with pytest.raises(error, match=sentence) as raised:
        inspect(Upload((vectors,), second(tmp_path, filename, content)))
    assert raised.value.field == "annotations"


def test_second_file_altered_after_opening_is_refused(vectors, tmp_path):
    labels = second(tmp_path, "l.csv", b"word\n" + b"king\n" * 6)
    _, contents = open_upload(Upload((vectors,), labels))
    labels.path.write_bytes(b"word\nking,queen\n")
    with pytest.raises(InvalidError, match=r"l\.csv: Line 2 has another number of columns") as raised:
        list(contents.values("word"))
    assert raised.value.field == "annotations"


def test_second_file_needs_one_row_per_vector(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("x,y\n1.5,2.5\n3.5,4.5\n")
    with pytest.raises(InvalidError, match=r"expected a row for each vector, 2, got 3\."):
        inspect(Upload((NamedFile(path, "own.csv"),), second(tmp_path, "l.txt", b"a\nb\nc\n")))
