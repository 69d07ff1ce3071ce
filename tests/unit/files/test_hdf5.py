import os
import random

import h5py
import numpy as np
import pytest

from app.sandbox import limit_resources
from isoscope.core.errors import InvalidError, IsoscopeError, TooLargeError
from isoscope.files import hdf5
from isoscope.files.arrays import ArrayFile
from isoscope.files.hdf5 import read_hdf5
from isoscope.files.matrix import inspect
from isoscope.files.upload import NamedFile, Upload

SECONDS = 1
X = np.random.default_rng(0).standard_normal((20, 6)).astype(np.float32)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.h5"


def read(path):
    return ArrayFile(read_hdf5(path))


@pytest.mark.parametrize(
    "options",
    [{}, {"chunks": (3, 4)}, {"compression": "gzip", "shuffle": True, "fletcher32": True}, {"compression": "lzf"}],
)
def test_nested_matrices_are_parts(path, options):
    with h5py.File(path, "w") as file:
        file.create_dataset("layers/12/cls", data=X, **options)
        file["x"] = X.astype(">f8")
    contents = read(path)
    parts = [(part.name, part.n, part.d, part.dtype) for part in contents.parts]
    assert parts == [("x", 20, 6, "float64"), ("layers/12/cls", 20, 6, "float32")]
    blocks = list(contents.blocks("layers/12/cls", 7, transpose=False))
    assert [len(block) for block in blocks] == [7, 7, 6]
    np.testing.assert_array_equal(np.concatenate(blocks), X)
    np.testing.assert_array_equal(np.concatenate(list(contents.blocks("layers/12/cls", 4, transpose=True))), X.T)


def test_one_dimensional_arrays_are_names_and_labels(path):
    with h5py.File(path, "w") as file:
        file["x"] = X
        file["word"] = [f"wört {i}" for i in range(20)]
        file["fixed"] = np.array([b"a", b"b"] * 10)
        file["label"] = np.arange(20) % 3
        file["flag"] = np.arange(20) % 2 == 0
        file["score"] = np.arange(20) / 3
        file["single"] = 3
        file["nothing"] = h5py.Empty("f4")
        file["records"] = np.zeros(3, "f4,f4")
        file["reference"] = np.array([file["x"].ref], dtype=h5py.ref_dtype)
    contents = read(path)
    assert {annotation.name: annotation.n_distinct for annotation in contents.annotations} == {
        "word": 20, "fixed": 2, "label": 3, "flag": 2,
    }  # fmt: skip
    assert list(contents.values("word"))[:2] == ["wört 0", "wört 1"]
    assert list(contents.values("fixed"))[:2] == ["a", "b"]


def test_linked_object_is_read_once(path):
    with h5py.File(path, "w") as file:
        file["group/x"] = X
        file["again"] = file["group/x"]
        file["group/root"] = file["/"]
        file["soft"] = h5py.SoftLink("/group/x")
        file["dangling"] = h5py.SoftLink("/nowhere")
    assert [part.name for part in read(path).parts] == ["again"]


def test_external_files_and_plugins_are_never_opened(path, tmp_path):
    linked_path = tmp_path / "other.h5"
    with h5py.File(linked_path, "w") as file:
        file["x"] = X
    layout = h5py.VirtualLayout(shape=X.shape, dtype="f4")
    layout[:] = h5py.VirtualSource(linked_path, "x", shape=X.shape)

    def external_link(file):
        file["x"] = h5py.ExternalLink(str(linked_path), "/x")

    def external_storage(file):
        file.create_dataset("x", X.shape, "f4", external=[(str(linked_path), 0, X.nbytes)])

    def virtual(file):
        file.create_virtual_dataset("x", layout)

    for make in (external_link, external_storage, virtual):
        with h5py.File(path, "w") as file:
            make(file)
        with pytest.raises(InvalidError, match=r"In the HDF5 file .*'x'.* never opened here: copy the values into one"):
            read(path)
    with h5py.File(path, "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((4, 6))
        properties.set_filter(32001, h5py.h5z.FLAG_OPTIONAL, ())
        h5py.h5d.create(file.id, b"x", h5py.h5t.NATIVE_FLOAT, h5py.h5s.create_simple(X.shape), properties)
    with pytest.raises(InvalidError, match=r"'x' is compressed by a filter .* \(number 32001\).*never loaded here"):
        read(path)
    assert h5py.h5pl.size() == 0


def test_oversized_chunks_and_trees_are_refused(path, monkeypatch):
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (10**7, 1000), "f4", chunks=(1000, 1000), fillvalue=1)
    with pytest.raises(TooLargeError, match="'x' declares 40,000,000,000 bytes in 0, more than 200 to 1"):
        read(path)
    monkeypatch.setattr(hdf5, "MAX_CHUNK_BYTES", 400)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=X, chunks=(20, 6), compression="gzip")
    with pytest.raises(TooLargeError, match="'x' is stored in pieces of more than 400 bytes"):
        read(path)
    with h5py.File(path, "w") as file:
        file["/".join("abcdefgh")] = X
    monkeypatch.setattr(hdf5, "MAX_DEPTH", 5)
    with pytest.raises(TooLargeError, match="more than 1,000 arrays and groups, or more than 5 groups in one another"):
        read(path)


def test_file_without_matrix_is_refused_with_advice(path):
    with h5py.File(path, "w") as file:
        file["x"] = X.reshape(4, 5, 6)
    with pytest.raises(
        InvalidError, match=r"found 'x' \(4 x 5 x 6, float32\): save one layer of it, or all in a \.npy"
    ):
        read(path)


@pytest.mark.parametrize("extent", [9, 100, 0.5, 0.99])
def test_truncated_file_is_refused(path, extent):
    with h5py.File(path, "w") as file:
        file["x"] = np.tile(X, (100, 1))
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * extent) if isinstance(extent, float) else extent])
    with pytest.raises(InvalidError, match=r"The HDF5 file cannot be read \(.*\): it was cut off, altered"):
        read(path)


def ends_well(path) -> bool:
    """Return whether a child process reads or refuses the file, or is killed, as the sandbox expects."""
    if (child := os.fork()) == 0:
        limit_resources(2**30, SECONDS)
        try:
            inspect(Upload((NamedFile(path, "x.h5"),)))
        except IsoscopeError:
            pass
        except BaseException:  # noqa: BLE001 - the child must not continue as a test run
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0


@pytest.mark.slow
def test_mutated_file_is_read_refused_or_ends_process(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("group/x", data=X, chunks=(6, 6), compression="gzip")
        file["word"] = [f"w{i}" for i in range(20)]
    content = path.read_bytes()
    chance = random.Random(0)
    used = [i for i, byte in enumerate(content) if byte]
    for _ in range(12):
        changed = bytearray(content)
        for i in chance.sample(used, 3):
            changed[i] = chance.randrange(256)
        path.write_bytes(changed)
        assert ends_well(path)
