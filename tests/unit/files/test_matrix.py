import json

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.files import matrix as matrix_module
from isoscope.files.matrix import Inspection, MatrixStats, inspect, open_matrix
from isoscope.files.selection import Selection
from isoscope.files.upload import NamedFile, Upload
from isoscope.files.upload_formats import Role, formats_of

X = np.random.default_rng(0).standard_normal((23, 5)).astype(np.float32)
WORDS = [f"word {letter}" for letter in "abcdefghijklmnopqrstuvw"]
DIMENSIONS = ["c0", "c1", "c2", "c3", "c4"]


def uploaded(path):
    return Upload((NamedFile(path, path.name),))


def write(folder, file_format, x=X):  # noqa: PLR0911 - one for each format
    path = folder / f"x.{file_format}"
    if file_format == "npy":
        np.save(path, x)
        return path, "array"
    if file_format == "npz":
        np.savez_compressed(path, x=x, words=WORDS)
        return path, "x"
    if file_format == "safetensors":
        save_file({"x": np.ascontiguousarray(x)}, path)
        return path, "x"
    if file_format == "hdf5":
        path = path.with_suffix(".h5")
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=x, chunks=(7, 2), compression="gzip")
            file["words"] = WORDS
        return path, "x"
    if file_format == "parquet":
        table = pa.table({"x": pa.array(list(x), pa.list_(pa.float32())), "words": WORDS})
        pq.write_table(table, path, row_group_size=10)
        return path, "x"
    if file_format == "jsonl":
        rows = zip(x.tolist(), WORDS, strict=True)
        path.write_text("".join(json.dumps({"x": row, "words": word}) + "\n" for row, word in rows))
        return path, "x"
    if file_format == "word2vec":
        path = path.with_suffix(".vec")
        rows = "".join(f"{word} {' '.join(map(repr, row))}\n" for word, row in zip(WORDS, x.tolist(), strict=True))
        path.write_text(f"{len(x)} {x.shape[1]}\n{rows}")
        return path, "vectors"
    if file_format == "word2vec binary":
        path = path.with_suffix(".bin")
        rows = (f"w{i} ".encode() + row.astype("<f4").tobytes() + b"\n" for i, row in enumerate(x))
        path.write_bytes(f"{len(x)} {x.shape[1]}\n".encode() + b"".join(rows))
        return path, "vectors"
    separator = "," if file_format == "csv" else "\t"
    lines = [separator.join([word, *map(repr, row.tolist())]) for word, row in zip(WORDS, x, strict=True)]
    path.write_text("\n".join([separator.join(["words", *DIMENSIONS]), *lines]))
    return path, DIMENSIONS


@pytest.mark.parametrize("file_format", [file_format.name for file_format in formats_of(Role.VECTORS)])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("rows", [1, 4, 1000])
def test_every_format_reads_same_rows_in_chunks(tmp_path, file_format, transpose, rows):
    path, vectors = write(tmp_path, file_format)
    matrix = open_matrix(uploaded(path), Selection(vectors=vectors, transpose=transpose))
    expected = X.T if transpose else X

    chunks = list(matrix.chunks(rows))

    assert (matrix.n, matrix.d) == expected.shape
    assert {chunk.dtype for chunk in chunks} == {matrix.dtype}
    assert all(chunk.flags.c_contiguous and len(chunk) <= rows for chunk in chunks)
    np.testing.assert_array_equal(np.concatenate(chunks).astype(np.float32), expected)
    assert len(list(matrix.chunks(rows))) == len(chunks)  # chunks can be read again


@pytest.mark.parametrize(
    ("stored", "read"),
    [("f2", "f4"), ("f4", "f4"), (">f4", "f4"), ("f8", "f8"), ("?", "f4"), ("i1", "f4"), ("u2", "f4"), ("i4", "f8"),
     ("i8", "f8")],
)  # fmt: skip
def test_chunks_have_narrowest_sufficient_float_type(tmp_path, stored, read):
    x = (X * 10).astype(stored)
    path, vectors = write(tmp_path, "npy", x)
    matrix = open_matrix(uploaded(path), Selection(vectors=vectors))
    (chunk,) = matrix.chunks()
    assert matrix.dtype == chunk.dtype == np.dtype(read)
    np.testing.assert_array_equal(chunk, x.astype(read))


@pytest.mark.parametrize("bits", [np.array([[0x7F800001]], "u4").view("f4"), np.array([[0x7C01]], "u2").view("f2")])
def test_signaling_nan_is_read_as_nan(tmp_path, bits):
    path, vectors = write(tmp_path, "npy", bits)
    (chunk,) = open_matrix(uploaded(path), Selection(vectors=vectors)).chunks()
    assert np.isnan(chunk).all()


def test_fortran_order_reads_like_c_order(tmp_path):
    np.save(tmp_path / "x.npy", np.asfortranarray(X))
    for transpose in (False, True):
        matrix = open_matrix(uploaded(tmp_path / "x.npy"), Selection(vectors="array", transpose=transpose))
        np.testing.assert_array_equal(np.concatenate(list(matrix.chunks(2))), X.T if transpose else X)


def test_labels_are_read_with_rows(tmp_path):
    path, vectors = write(tmp_path, "csv")
    assert open_matrix(uploaded(path), Selection(vectors=vectors, labels="words")).labels() == WORDS
    path, _ = write(tmp_path, "npz")
    with pytest.raises(InvalidError, match="The file has no array 'y'") as raised:
        open_matrix(uploaded(path), Selection(vectors="y"))
    assert raised.value.field == "vectors"


def test_chunks_stay_within_memory_and_rows_within_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(matrix_module, "MAX_CHUNK_BYTES", 3 * 5 * 4)
    path, vectors = write(tmp_path, "npy")
    matrix = open_matrix(uploaded(path), Selection(vectors=vectors))
    assert [len(chunk) for chunk in matrix.chunks(1000)] == [3] * 7 + [2]
    monkeypatch.setattr(matrix_module, "MAX_ROWS", 10)
    with pytest.raises(TooLargeError, match="The matrix has 23 rows, more than 10: upload a sample of them"):
        open_matrix(uploaded(path), Selection(vectors=vectors))
    assert open_matrix(uploaded(path), Selection(vectors=vectors, transpose=True)).n == 5


def census(*blocks):
    counted = MatrixStats()
    for block in blocks:
        counted.add(np.array(block))
    return counted


def test_invalid_and_duplicate_rows_are_counted():
    counted = census(
        [[1.0, 2.0], [np.nan, 0.0], [0.0, 0.0], [np.inf, 1.0]], [[1.0, 2.0], [-0.0, 0.0], [2.0, 1.0], [np.nan, 0.0]]
    )
    assert (counted.n, counted.n_nonfinite, counted.n_zero) == (8, 3, 2)
    assert counted.n_duplicate == 2  # [1, 2], and zero with another sign
    x = np.random.default_rng(0).standard_normal((5000, 16)).astype(np.float32)
    assert census(x[:3000], x[3000:]).n_duplicate == 0
    assert census(x, x[:123]).n_duplicate == 123
    assert MatrixStats().n_duplicate == 0


VECTORS = np.random.default_rng(0).standard_normal((40, 10)).astype(np.float32)
WIDE = np.random.default_rng(1).standard_normal((50, 529))


def inspected(tmp_path, x=None, selection=None, **arrays):
    path = tmp_path / "content"
    with path.open("wb") as stream:
        if x is None:
            np.savez(stream, **arrays)
        else:
            np.save(stream, x)
    return inspect(Upload((NamedFile(path, "x"),)), selection)


def test_inspection_describes_array(tmp_path):
    inspection = inspected(tmp_path, VECTORS)
    assert (inspection.format, inspection.n, inspection.d, inspection.dtype) == ("npy", 40, 10, "float32")
    assert inspection.selection == Selection(vectors="array")
    assert [row.values for row in inspection.preview] == VECTORS[:5, :8].tolist()
    assert (inspection.n_nonfinite, inspection.n_zero, inspection.n_duplicate, inspection.warnings) == (0, 0, 0, [])
    inspection = inspected(tmp_path, np.tile(VECTORS, (500, 1)))
    assert (inspection.n, inspection.n_duplicate, len(inspection.preview)) == (20_000, 20_000 - 40, 5)
    inspection = inspected(tmp_path, VECTORS, Selection(vectors="array", transpose=True))
    assert (inspection.n, inspection.d) == (10, 40)
    (warning,) = inspected(tmp_path, np.stack([VECTORS, VECTORS, VECTORS])).warnings
    assert "read as layers x rows x columns. Layer 2 of 0 to 2 is measured." in warning


def test_inspection_survives_json(tmp_path):
    x = VECTORS.copy()
    x[0, :3] = [np.nan, np.inf, -np.inf]
    inspection = inspected(tmp_path, x)
    assert inspection.preview[0].values[:3] == [None, None, None]
    text = inspection.model_dump_json()
    json.loads(text, parse_constant=pytest.fail)
    assert Inspection.model_validate_json(text) == inspection


def test_names_and_labels_are_selected_and_previewed(tmp_path):
    words = np.array([f"w{i}" for i in range(40)])
    inspection = inspected(tmp_path, vectors=VECTORS, word=words, label=np.arange(40) % 3)
    assert inspection.selection == Selection(vectors="vectors", names="word", labels="label")
    rows = [("w0", "0"), ("w1", "1"), ("w2", "2"), ("w3", "0")]
    assert [(row.name, row.label) for row in inspection.preview[:4]] == rows
    words = np.array([f"w{i}" for i in range(5000)])
    inspection = inspected(tmp_path, x=None, vectors=np.ones((5000, 2)), words=words)
    assert inspection.selection.labels is None
    with pytest.raises(InvalidError, match=r"'words' has more than 1,000 different values, which looks like names"):
        Selection(vectors="vectors", labels="words").check(inspection)


def test_selection_is_inspected_and_checked(tmp_path):
    inspection = inspected(tmp_path, a=VECTORS, b=VECTORS[:, :3], selection=Selection(vectors="b", transpose=True))
    assert (inspection.n, inspection.d) == (3, 40)
    assert [part.name for part in inspection.parts] == ["a", "b"]
    np.testing.assert_array_equal([row.values for row in inspection.preview], VECTORS[:8, :3].T)
    stored = Inspection.model_validate(inspected(tmp_path, a=VECTORS).model_dump(mode="json"))
    Selection(vectors="a", transpose=True).check(stored)
    with pytest.raises(InvalidError, match="The file has no array 'b'") as raised:
        Selection(vectors="b").check(stored)
    assert raised.value.field == "vectors"


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (VECTORS[:1], "There is one row only: every measure of spread needs at least two."),
        (VECTORS[:, :1], "There is one column only: isotropy compares dimensions, so it is not defined for one."),
        (VECTORS[:7], "7 rows are fewer than 10 dimensions: plain IsoScore is biased low. "),
        (WIDE, "This looks transposed: 50 is a usual number of dimensions and 529 is not. "),
        (np.vstack([VECTORS, 0 * VECTORS[:2]]), "Rows of zeros: 2. They have no direction, so they have no cosine. "),
        (np.vstack([VECTORS, VECTORS[:3]]), "Duplicate rows: 3. They count more in every measure except"),
        (np.vstack([VECTORS, [[np.nan] * 10]]), "Left out, because of NaN, infinity or an empty cell: 1 of 41 rows."),
        (VECTORS * np.nan, "Every row has NaN, infinity or an empty cell, so nothing can be measured. Find where they"),
    ],
)
def test_doubtful_numbers_give_a_warning(tmp_path, x, sentence):
    assert any(warning.startswith(sentence) for warning in inspected(tmp_path, x).warnings)


def test_table_is_inspected_by_column(tmp_path):
    path = tmp_path / "content"
    path.write_text("word,label,a,b\nking,0,1.5,2\nqueen,0,,4\npawn,1,1.5,2\nrook,1,0,0\n")
    inspection = inspect(Upload((NamedFile(path, "table.csv"),)))
    assert inspection.parts == []
    assert inspection.numeric_columns == ["a", "b"]
    assert inspection.selection == Selection(vectors=["a", "b"], names="word", labels="label")
    assert (inspection.n, inspection.d, inspection.dtype) == (4, 2, "float64")
    assert (inspection.n_nonfinite, inspection.n_zero, inspection.n_duplicate) == (1, 1, 1)
    assert inspection.preview[1].model_dump() == {"name": "queen", "label": "0", "values": [None, 4.0]}


def test_reference_matrix_is_inspected_and_matches_numpy(bench_data):
    path = bench_data / "embeddings" / "word2vec_googlenews_300d_8k.npz"
    inspection = inspect(uploaded(path))
    assert (inspection.n, inspection.d, inspection.dtype) == (8000, 300, "float32")
    assert inspection.selection == Selection(vectors="vectors", names="words")
    assert (inspection.n_nonfinite, inspection.n_zero, inspection.n_duplicate, inspection.warnings) == (0, 0, 0, [])
    assert [row.name for row in inspection.preview] == ["in", "for", "that", "is", "on"]
    matrix = open_matrix(uploaded(path), inspection.selection)
    with np.load(path) as archive:
        np.testing.assert_array_equal(np.concatenate(list(matrix.chunks(1000))), archive["vectors"])
        assert list(matrix.contents.values("words")) == archive["words"].tolist()


def test_integer_column_among_fractions_is_suggested_as_labels(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("\n".join(["a,b,c,gold", *(f"{i}.5,{i / 7},0.25,{i % 3}" for i in range(12))]))
    upload = Upload((NamedFile(path, path.name),))
    inspection = inspect(upload)
    assert inspection.d == 4
    assert inspection.warnings[-1].startswith("'gold' holds whole numbers, 3 different ones, and the other columns")
    again = inspect(upload, Selection(vectors=inspection.selection.vectors, labels="gold"))
    assert again.d == 3
    assert not any("gold" in warning for warning in again.warnings)
