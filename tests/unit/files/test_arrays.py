import io
import json
import struct
import zipfile
from contextlib import closing

import numpy as np
import pytest
import safetensors.numpy
from numpy.lib import format as npy_format

from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.files import arrays, compressed
from isoscope.files.arrays import ArrayFile, StoredArray, shape_text
from isoscope.files.contents import Annotation, Part
from isoscope.files.matrix import inspect, open_matrix
from isoscope.files.npy import MAX_HEADER_BYTES, read_npy, read_npz
from isoscope.files.safetensors import read_safetensors
from isoscope.files.selection import Selection
from isoscope.files.upload import NamedFile, Upload
from tests.uploads.good import npy

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


def saved(tmp_path, array, **kwargs):
    path = tmp_path / "x.npy"
    np.save(path, array, **kwargs)
    return path


def with_header(path, text, data=b""):
    header = text.encode()
    path.write_bytes(npy_format.MAGIC_PREFIX + b"\x01\x00" + len(header).to_bytes(2, "little") + header + data)
    return path


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", "i1", "u2", "i8", "?"])
def test_header_gives_shape_and_type(tmp_path, dtype):
    (array,) = read_npy(saved(tmp_path, np.ones((7, 3), dtype)))
    assert (array.name, array.shape, array.dtype) == ("array", (7, 3), np.dtype(dtype))
    assert array.is_matrix


def test_version_two_header_is_read_and_false_size_refused(tmp_path):
    with (tmp_path / "x.npy").open("wb") as stream:
        npy_format.write_array(stream, np.ones((4, 2)), version=(2, 0))
    assert read_npy(tmp_path / "x.npy")[0].shape == (4, 2)
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2500000000, 1)}\n"
    sentence = r"declares 10,000,000,000 bytes \(2,500,000,000 x 1 of float32\), but 8 follow"
    with pytest.raises(InvalidError, match=sentence):
        read_npy(with_header(tmp_path / "x.npy", header, b"\0" * 8))


def test_truncated_file_and_trailing_bytes_are_refused(tmp_path):
    path = saved(tmp_path, np.ones((10, 10)))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InvalidError, match=r"declares 800 bytes .*, but 799 follow: the file was cut off or altered"):
        read_npy(path)
    path = saved(tmp_path, np.ones((2, 2)))
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(InvalidError, match="cut off or altered"):
        read_npy(path)


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.ones(300), r"found 'array' \(300, float64\): one dimension is not a matrix; use x\.reshape\(-1, d\)"),
        (np.ones((2, 3, 4, 1)), r"found 'array' \(2 x 3 x 4 x 1, float64\): at most three .*x\.mean\(axis=2\)"),
        (np.float64(3), r"a single value, float64\)"),
        (np.ones((0, 300)), "0 x 300, float64.*: it has no rows or no columns, so there is nothing to measure"),
        (np.array([["a", "b"]]), "str32 is not a type of real numbers that is read here; convert it to float32"),
        (np.ones((2, 2), complex), "complex128 is not a type of real numbers"),
        (np.ones((2, 2), "M8[s]"), r"datetime64\[s\] is not a type of real numbers"),
    ],
)
def test_array_that_is_no_matrix_is_refused_with_advice(tmp_path, array, sentence):
    with pytest.raises(InvalidError, match=sentence):
        ArrayFile(read_npy(saved(tmp_path, array)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1, 2]",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f3', 'fortran_order': False, 'shape': (1, 1)}",
        "{'descr': '<f4', 'fortran_order': 1, 'shape': (1, 1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1.5, 1)}",
        "{'descr': 'nonsense', 'fortran_order': False, 'shape': (1, 1)}",
        "{'descr': '__import__(\"os\")', 'fortran_order': False, 'shape': (1, 1)}",
        "{'descr': __import__('os'), 'fortran_order': False, 'shape': (1, 1)}",
        "(" * 5000 + ")" * 4000,
        "-" * (MAX_HEADER_BYTES - 1) + "1",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1)}" + " " * MAX_HEADER_BYTES,
        "\xff\xfe",
        "{'descr': [('a',)], 'fortran_order': False, 'shape': (1, 1)}",
        "{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (1, 1)}",
    ],
)
def test_invalid_header_is_refused(tmp_path, text):
    path = with_header(tmp_path / "x.npy", text, b"\0" * 4)
    with pytest.raises(
        InvalidError, match=r"The header of the npy array 'array' cannot be read: .* write it again|holds records"
    ):
        read_npy(path)


@pytest.mark.parametrize(
    "shape", ["(-1, 4)", "(4, -4)", f"({2**70}, 1)", str((1,) * 40), f"(0x{'f' * 9000}, 1)", "(True, 1)", "7"]
)
def test_impossible_shape_is_refused(tmp_path, shape):
    path = with_header(tmp_path / "x.npy", f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}")
    with pytest.raises(
        InvalidError, match=r"cannot be read: (its shape is not a tuple of at most 32|it is not one that NumPy)"
    ):
        read_npy(path)


@pytest.mark.parametrize("version", [b"\x04\x00", b"\x00\x00", b"\xff\xff"])
def test_unknown_version_is_refused(tmp_path, version):
    path = saved(tmp_path, np.ones((2, 2)))
    content = path.read_bytes()
    path.write_bytes(content[:6] + version + content[8:])
    with pytest.raises(InvalidError, match=r"its version is none of 1.0, 2.0 and 3.0"):
        read_npy(path)


VECTORS = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.npz"


def write_zip(path, members, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_matrices_are_parts_and_lists_are_annotations(path, save):
    words, label = np.array(["a", "b", "b", "é"]), np.array([0, 1, 1, 0])
    save(path, vectors=VECTORS, words=words, label=label, cube=np.ones((1, 2, 3, 4)))
    contents = ArrayFile(read_npz(path))
    assert contents.parts == [Part(name="vectors", n=4, d=3, dtype="float32")]
    assert contents.annotations == [
        Annotation(name="words", n=4, n_distinct=3, examples=["a", "b", "é"]),
        Annotation(name="label", n=4, n_distinct=2, examples=["0", "1"]),
    ]
    assert list(contents.values("words")) == ["a", "b", "b", "é"]
    blocks = list(contents.blocks("vectors", 3, transpose=False))
    assert [block.shape for block in blocks] == [(3, 3), (1, 3)]
    np.testing.assert_array_equal(np.concatenate(blocks), VECTORS)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("inner.npz", b"PK\x03\x04", r"Expected only \.npy members, found 'inner\.npz': write the archive with"),
        ("data.pkl", b"\x80\x04.", r"Expected only \.npy members, found 'data\.pkl'"),
        ("x.npy", b"\x80\x04.", "The header of the npy array 'x' cannot be read"),
        ("x.npy", b"", "The header of the npy array 'x' cannot be read"),
        ("x.npy", npy(VECTORS)[:-1], "declares 48 bytes .*, but 47 follow"),
    ],
)
def test_invalid_members_are_refused(path, name, content, sentence):
    with pytest.raises(InvalidError, match=sentence):
        read_npz(write_zip(path, [("good.npy", npy(VECTORS)), (name, content)]))


@pytest.mark.slow
def test_empty_oversized_and_bomb_archives_are_refused(path):
    with pytest.raises(InvalidError, match="The file holds no array: expected one with a row for each vector"):
        ArrayFile(read_npz(write_zip(path, [])))
    with pytest.raises(TooLargeError, match=r"has 1,001 members, more than 1,000: save the arrays you want"):
        read_npz(write_zip(path, [(f"{i}.npy", b"") for i in range(1001)]))
    bomb = npy(np.zeros((80, 2**18), np.float32))
    with pytest.raises(
        TooLargeError, match=r"declares 83,886,208 bytes in [\d,]+, more than 200 to 1, which could exha"
    ):
        read_npz(write_zip(path, [("x.npy", bomb)], zipfile.ZIP_DEFLATED))
    np.savez_compressed(path, x=np.zeros((1000, 1000)))
    assert read_npz(path)[0].shape == (1000, 1000)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicate_names_and_foreign_compression_are_refused(path):
    with pytest.raises(InvalidError, match="Two members of the archive have the same name"):
        read_npz(write_zip(path, [("x.npy", npy(VECTORS))] * 2))
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with pytest.raises(InvalidError, match="compressed by a method that numpy does not use"):
            read_npz(write_zip(path, [("x.npy", npy(VECTORS))], method))


def test_directory_and_total_size_are_limited(path, monkeypatch):
    monkeypatch.setattr(compressed, "MAX_DIRECTORY_BYTES", 200)
    with pytest.raises(InvalidError, match=r"cannot be read \(its directory is longer than 200 bytes\)"):
        read_npz(write_zip(path, [(f"{i}.npy", b"") for i in range(10)]))
    monkeypatch.setattr(compressed, "MAX_DECOMPRESSED_BYTES", 1000)
    np.savez(path, a=np.ones((10, 10)), b=np.ones((10, 10)))
    with pytest.raises(TooLargeError, match=r"unpacks to 1,856 bytes, more than 1,000: save fewer arrays or rows"):
        read_npz(path)


def test_encrypted_members_and_false_lengths_are_refused(path):
    content = bytearray(write_zip(path, [("x.npy", npy(VECTORS))]).read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(InvalidError, match=r"The member 'x\.npy' is encrypted: write the archive without a password"):
        read_npz(path)
    content = bytearray(write_zip(path, [("x.npy", npy(VECTORS))]).read_bytes())
    struct.pack_into("<LL", content, content.index(b"PK\x01\x02") + 20, 10**6, 10**6)
    path.write_bytes(content)
    with pytest.raises(InvalidError, match=r"cut off or altered|cannot be read"):
        read_npz(path)


@pytest.mark.parametrize("extent", [0.1, 0.5, 0.99])
def test_truncated_archive_is_refused(path, extent):
    np.savez(path, x=VECTORS)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * extent)])
    with pytest.raises(InvalidError, match=r"The npz archive cannot be read .*cut off, altered"):
        read_npz(path)


@pytest.mark.parametrize("transpose", [False, True])
def test_damaged_values_are_refused_on_read(path, transpose):
    np.savez_compressed(path, x=np.random.default_rng(0).standard_normal((2000, 50)))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    contents = ArrayFile(read_npz(path))
    with pytest.raises(InvalidError, match="The values of 'x' end early or are damaged: write the file again"):
        list(contents.blocks("x", 64, transpose=transpose))


def test_invalid_unicode_is_refused_or_replaced(path):
    words = np.frombuffer(b"\xff\xff\xff\xff" * 8, "<U2")
    np.savez(path, x=VECTORS, words=words)
    with pytest.raises(InvalidError, match="The array 'words' holds text that is not Unicode"):
        ArrayFile(read_npz(path))
    np.savez(path, x=VECTORS, words=np.array(["a\ud800", "b\0c", "d", "e"]))
    assert list(ArrayFile(read_npz(path)).values("words")) == ["a?", "b\ufffdc", "d", "e"]


@pytest.fixture
def tensors_path(tmp_path):
    return tmp_path / "x.safetensors"


def write_tensors(tensors_path, header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    tensors_path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return tensors_path


def entry(shape=(2, 2), dtype="F32", begin=0, end=16):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"])
def test_library_files_are_read(tensors_path, dtype):
    x = np.arange(6).reshape(2, 3).astype(dtype)
    safetensors.numpy.save_file({"x": x, "y": np.ones((4, 1))}, tensors_path, metadata={"model": "some"})

    contents = ArrayFile(read_safetensors(tensors_path))

    assert {part.name: (part.n, part.d) for part in contents.parts} == {"x": (2, 3), "y": (4, 1)}
    (block,) = contents.blocks("x", 10, transpose=False)
    np.testing.assert_array_equal(block, x)


def test_bfloat16_is_read_exactly(tensors_path):
    numbers = np.array([[1.0, -2.5], [np.inf, 3.140625]], np.float32)
    bits = (numbers.view(np.uint32) >> 16).astype("<u2")
    content = write_tensors(tensors_path, {"x": entry(dtype="BF16", end=8)}, bits.tobytes())
    contents = ArrayFile(read_safetensors(content))
    assert contents.parts == [Part(name="x", n=2, d=2, dtype="bfloat16")]
    (block,) = contents.blocks("x", 10, transpose=False)
    assert block.dtype == np.float32
    np.testing.assert_array_equal(block, numbers)


@pytest.mark.parametrize(
    ("header", "data", "length", "sentence"),
    [
        (b"{}", b"", 2**63, "declares a header of 9,223,372,036,854,775,808 bytes, but the file has 10"),
        (b"{}", b"", 3, "declares a header of 3 bytes"),
        (b"{", b"", None, "its header is not the JSON it should be"),
        (b"[1]", b"", None, "its header is not a JSON object"),
        (b"\xff\xff", b"", None, "its header is not the JSON it should be"),
        (b'{"x":' + b"[" * 100_000, b"", None, "its header is not the JSON it should be"),
        (b'{"x": 1, "x": 2}', b"", None, "the key 'x' occurs twice"),
        ({"x": 1}, b"", None, "'x' is not described by dtype, shape and data_offsets"),
        ({"x": {"dtype": "F32"}}, b"", None, "'x' is not described by dtype, shape and data_offsets"),
        ({"x": entry(begin=4, end=0)}, b"", None, r"data_offsets of 'x' are \[4, 0\], expected \[begin, end\]"),
        ({"x": entry(begin=-16, end=0)}, b"", None, "data_offsets of 'x'"),
        ({"x": entry(begin=True)}, b"", None, "data_offsets of 'x'"),
        ({"x": entry(shape=(2.5, 2))}, bytes(16), None, r"the shape of 'x' is \[2\.5, 2\]"),
        ({"x": entry(shape=(-2, -2))}, bytes(16), None, "the shape of 'x'"),
        ({"x": entry(shape=(1,) * 40)}, bytes(16), None, "the shape of 'x'"),
        ({"x": entry(shape=(2**40, 2**40))}, bytes(16), None, r"but 16 follow: the file was cut off"),
        ({"x": entry(), "y": entry(begin=8, end=24)}, bytes(24), None, "values of 'y' overlap others or leave a gap"),
        ({"x": entry(begin=8, end=24)}, bytes(24), None, "the values of 'x' overlap others or leave a gap"),
        ({"x": entry()}, bytes(15), None, "declares .* bytes in all, but the file has"),
        ({"x": entry()}, bytes(17), None, "declares .* bytes in all, but the file has"),
        ({"x": entry(end=16, shape=(4, 4))}, bytes(16), None, r"declares 64 bytes \(4 x 4 of float32\), but 16 follow"),
        ({"x": entry(dtype="F8_E4M3", end=4)}, bytes(4), None, r"has the type F8_E4M3, expected one of F64, .*x\.to\("),
        ({"x": entry(dtype=["F32"])}, bytes(16), None, "expected one of F64"),
        ({"a\ud800": entry()}, bytes(16), None, "is not Unicode text: save it under another name"),
        ({}, b"", None, "The file holds no array"),
    ],
)
def test_invalid_tensor_header_is_refused(tensors_path, header, data, length, sentence):
    with pytest.raises(InvalidError, match=sentence):
        ArrayFile(read_safetensors(write_tensors(tensors_path, header, data, length)))


def test_short_file_long_header_and_model_weights_are_refused(tensors_path, monkeypatch):
    tensors_path.write_bytes(b"\x01\0\0\0\0\0\0")
    with pytest.raises(InvalidError, match="declares a header of 1 bytes, but the file has 7"):
        read_safetensors(tensors_path)
    header = {f"layer.{i}": entry(shape=(0, 4), end=0) for i in range(1001)}
    with pytest.raises(TooLargeError, match="1,001 arrays, more than 1,000: these look like a model's weights"):
        read_safetensors(write_tensors(tensors_path, header))
    monkeypatch.setattr("isoscope.files.safetensors.MAX_HEADER_BYTES", 20)
    with pytest.raises(InvalidError, match="is longer than 20"):
        read_safetensors(write_tensors(tensors_path, {"x": entry()}, bytes(16)))
