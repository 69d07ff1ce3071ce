import json
import os
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.files import matrix as matrix_module
from isoscope.files.matrix import MatrixStats, open_matrix
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


def test_names_and_labels_are_read_with_rows(tmp_path):
    path, vectors = write(tmp_path, "csv")
    assert open_matrix(uploaded(path), Selection(vectors=vectors, names="words")).names() == WORDS
    matrix = open_matrix(uploaded(path), Selection(vectors=vectors, labels="words"))
    assert matrix.labels() == WORDS
    assert matrix.names() is None
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


@pytest.mark.skipif("ISOSCOPE_BENCH_DATA" not in os.environ, reason="ISOSCOPE_BENCH_DATA is not set")
def test_reference_matrix_matches_numpy():
    path = Path(os.environ["ISOSCOPE_BENCH_DATA"]) / "embeddings" / "word2vec_googlenews_300d_8k.npz"
    with np.load(path) as archive:
        vectors, words = archive["vectors"], archive["words"].tolist()
    matrix = open_matrix(uploaded(path), Selection(vectors="vectors", names="words"))
    np.testing.assert_array_equal(np.concatenate(list(matrix.chunks(1000))), vectors)
    assert matrix.names() == words


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
