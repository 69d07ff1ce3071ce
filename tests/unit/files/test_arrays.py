import io
from contextlib import closing

import numpy as np
import pytest
import safetensors.numpy

from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.files import arrays
from isoscope.files.arrays import StoredArray, shape_text
from isoscope.files.matrix import inspect, open_matrix
from isoscope.files.selection import Selection
from isoscope.files.upload import NamedFile, Upload

OFFSET = 5


def stored(x, fortran=False, cut=0):
    content = bytes(OFFSET) + x.tobytes(order="F" if fortran else "C")
    content = content[: len(content) - cut]
    return StoredArray("x", x.shape, x.dtype, x.dtype.name, fortran, OFFSET, lambda: closing(io.BytesIO(content)))


@pytest.mark.parametrize("fortran", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("rows", [1, 3, 100])
def test_memory_order_does_not_change_rows(fortran, transpose, rows):
    x = np.arange(77, dtype=np.float32).reshape(11, 7)
    blocks = list(stored(x, fortran).blocks(rows, transpose=transpose))
    assert max(len(block) for block in blocks) <= rows
    np.testing.assert_array_equal(np.concatenate(blocks), x.T if transpose else x)


def test_column_blocks_stay_within_memory_limit(monkeypatch):
    monkeypatch.setattr(arrays, "MAX_COLUMN_BLOCK_BYTES", 11 * 8 * 2)
    x = np.arange(77.0).reshape(11, 7)
    blocks = list(stored(x).blocks(100, transpose=True))
    assert [len(block) for block in blocks] == [2, 2, 2, 1]
    np.testing.assert_array_equal(np.concatenate(blocks), x.T)


@pytest.mark.parametrize("transpose", [False, True])
def test_truncated_values_are_refused(transpose):
    with pytest.raises(InvalidError, match="The values of 'x' end early or are damaged: write the file again"):
        list(stored(np.ones((4, 4)), cut=1).blocks(2, transpose=transpose))


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (np.array(["a", "bc"]), ["a", "bc"]),
        (np.array([b"a", "é".encode(), b"\xff"]), ["a", "é", "\ufffd"]),
        (np.array([3, -1], np.int8), ["3", "-1"]),
        (np.array([True, False]), ["True", "False"]),
    ],
)
def test_one_dimensional_values_are_read_as_text(x, expected):
    array = stored(x)
    assert array.is_annotation
    assert list(array.values()) == expected


@pytest.mark.parametrize(
    ("shape", "dtype"), [((3,), "f4"), ((2, 2), "i4"), ((0,), "U3"), ((3,), "U0"), ((), "i4"), ((3,), "M8[s]")]
)
def test_array_that_cannot_name_rows_is_no_annotation(shape, dtype):
    array = StoredArray("x", shape, np.dtype(dtype), dtype, fortran=False, offset=0, open=lambda: closing(io.BytesIO()))
    assert not array.is_annotation


def test_shape_text_is_readable():
    assert shape_text((8000, 300)) == "8,000 x 300"
    assert shape_text(()) == "a single value"


X = np.random.default_rng(0).normal(size=(3, 50, 8)).astype(np.float32)
LABELS = np.arange(50) % 3


def npy(x):
    stream = io.BytesIO()
    np.save(stream, x)
    return stream.getvalue()


def npz(save=np.savez, **arrays_by_name):
    stream = io.BytesIO()
    save(stream, **arrays_by_name)
    return stream.getvalue()


FILES = {
    "npy": ("x.npy", npy(X), "array"),
    "npz": ("x.npz", npz(states=X), "states"),
    "compressed npz": ("x.npz", npz(np.savez_compressed, states=X), "states"),
    "safetensors": ("x.safetensors", safetensors.numpy.save({"states": X}), "states"),
}


def written(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    return NamedFile(tmp_path / name, name)


def rows_of(upload, vectors, transpose=False):
    matrix = open_matrix(upload, Selection(vectors=vectors, transpose=transpose))
    return np.concatenate(list(matrix.chunks()))


@pytest.mark.parametrize("case", FILES)
@pytest.mark.parametrize("transpose", [False, True])
def test_each_layer_is_a_part_with_its_own_rows(tmp_path, case, transpose):
    name, content, stack = FILES[case]
    upload = Upload((written(tmp_path, name, content),))
    inspection = inspect(upload)
    assert [(part.name, part.n, part.d, part.stack, part.layer) for part in inspection.parts] == [
        (f"{stack}[{layer}]", 50, 8, stack, layer) for layer in range(3)
    ]
    assert (inspection.selection.vectors, inspection.layer) == (f"{stack}[2]", 2)
    for layer in range(3):
        expected = X[layer].T if transpose else X[layer]
        np.testing.assert_array_equal(rows_of(upload, f"{stack}[{layer}]", transpose), expected)


def test_layers_are_offered_beside_matrices_and_labels(tmp_path):
    content = npz(states=X, weights=np.zeros((2, 2)), label=LABELS)
    inspection = inspect(Upload((written(tmp_path, "x.npz", content),)))
    assert [part.name for part in inspection.parts] == ["weights", "states[0]", "states[1]", "states[2]"]
    assert (inspection.selection.vectors, inspection.selection.labels) == ("states[2]", "label")
    content = npz(embeddings=X, weights=np.zeros((100, 100)))
    assert inspect(Upload((written(tmp_path, "x.npz", content),))).selection.vectors == "embeddings[2]"
    assert inspect(Upload((written(tmp_path, "x.npy", npy(X[0])),))).layer is None


def test_shards_are_joined_by_layer(tmp_path):
    upload = Upload((written(tmp_path, "a.npy", npy(X[:, :20])), written(tmp_path, "b.npy", npy(X[:, 20:]))))
    inspection = inspect(upload)
    assert [(part.name, part.n, part.layer) for part in inspection.parts] == [(f"array[{k}]", 50, k) for k in range(3)]
    np.testing.assert_array_equal(rows_of(upload, "array[1]"), X[1])
    upload = Upload((written(tmp_path, "a.npy", npy(X)), written(tmp_path, "b.npy", npy(X[:2]))))
    with pytest.raises(InvalidError, match="need the same arrays or columns"):
        inspect(upload)
    vectors = (written(tmp_path, "x.npy", npy(X)),)
    inspection = inspect(Upload(vectors, written(tmp_path, "rows.npy", npy(LABELS))))
    assert inspection.selection.labels == "array"
    with pytest.raises(InvalidError, match=r"rows\.npy: expected a row for each vector, .*got 150") as caught:
        inspect(Upload(vectors, written(tmp_path, "rows.npy", npy(np.arange(150)))))
    assert caught.value.field == "annotations"


def test_layer_name_clash_and_too_many_layers_are_refused(tmp_path, monkeypatch):
    content = safetensors.numpy.save({"x": X, "x[1]": X[0]})
    with pytest.raises(InvalidError, match=r"x\[1\].* is both an array and a layer of one"):
        inspect(Upload((written(tmp_path, "x.safetensors", content),)))
    monkeypatch.setattr(arrays, "MAX_PARTS", 5)
    content = npz(a=X, b=X)
    with pytest.raises(TooLargeError, match="have 6 layers in all, more than 5"):
        inspect(Upload((written(tmp_path, "x.npz", content),)))
