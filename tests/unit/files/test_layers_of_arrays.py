import io

import numpy as np
import pytest
import safetensors.numpy

from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.files import arrays
from isoscope.files.matrix import inspect, open_matrix
from isoscope.files.selection import Selection
from isoscope.files.upload import NamedFile, Upload

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


@pytest.fixture
def written(tmp_path):
    def write(name, content):
        (tmp_path / name).write_bytes(content)
        return NamedFile(tmp_path / name, name)

    return write


def rows_of(upload, vectors, transpose=False):
    matrix = open_matrix(upload, Selection(vectors=vectors, transpose=transpose))
    return np.concatenate(list(matrix.chunks()))


@pytest.mark.parametrize("case", FILES)
@pytest.mark.parametrize("transpose", [False, True])
def test_each_layer_is_a_part_with_its_own_rows(written, case, transpose):
    name, content, stack = FILES[case]
    upload = Upload((written(name, content),))
    inspection = inspect(upload)
    assert [(part.name, part.n, part.d, part.stack, part.layer) for part in inspection.parts] == [
        (f"{stack}[{layer}]", 50, 8, stack, layer) for layer in range(3)
    ]
    assert (inspection.selection.vectors, inspection.layer) == (f"{stack}[2]", 2)
    for layer in range(3):
        expected = X[layer].T if transpose else X[layer]
        np.testing.assert_array_equal(rows_of(upload, f"{stack}[{layer}]", transpose), expected)


def test_layers_are_offered_beside_matrices_and_labels(written):
    content = npz(states=X, weights=np.zeros((2, 2)), label=LABELS)
    inspection = inspect(Upload((written("x.npz", content),)))
    assert [part.name for part in inspection.parts] == ["weights", "states[0]", "states[1]", "states[2]"]
    assert (inspection.selection.vectors, inspection.selection.labels) == ("states[2]", "label")
    content = npz(embeddings=X, weights=np.zeros((100, 100)))
    assert inspect(Upload((written("x.npz", content),))).selection.vectors == "embeddings[2]"
    assert inspect(Upload((written("x.npy", npy(X[0])),))).layer is None


def test_shards_are_joined_by_layer(written):
    upload = Upload((written("a.npy", npy(X[:, :20])), written("b.npy", npy(X[:, 20:]))))
    inspection = inspect(upload)
    assert [(part.name, part.n, part.layer) for part in inspection.parts] == [(f"array[{k}]", 50, k) for k in range(3)]
    np.testing.assert_array_equal(rows_of(upload, "array[1]"), X[1])
    upload = Upload((written("a.npy", npy(X)), written("b.npy", npy(X[:2]))))
    with pytest.raises(InvalidError, match="need the same arrays or columns"):
        inspect(upload)
    vectors = (written("x.npy", npy(X)),)
    inspection = inspect(Upload(vectors, written("rows.npy", npy(LABELS))))
    assert inspection.selection.labels == "array"
    with pytest.raises(InvalidError, match=r"rows\.npy: expected a row for each vector, .*got 150") as caught:
        inspect(Upload(vectors, written("rows.npy", npy(np.arange(150)))))
    assert caught.value.field == "annotations"


def test_layer_name_clash_and_too_many_layers_are_refused(written, monkeypatch):
    content = safetensors.numpy.save({"x": X, "x[1]": X[0]})
    with pytest.raises(InvalidError, match=r"x\[1\].* is both an array and a layer of one"):
        inspect(Upload((written("x.safetensors", content),)))
    monkeypatch.setattr(arrays, "MAX_PARTS", 5)
    content = npz(a=X, b=X)
    with pytest.raises(TooLargeError, match="have 6 layers in all, more than 5"):
        inspect(Upload((written("x.npz", content),)))
