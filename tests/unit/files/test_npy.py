import struct
import zipfile

import numpy as np
import pytest
from numpy.lib import format as npy_format

from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.files import compressed
from isoscope.files.arrays import ArrayFile
from isoscope.files.contents import Annotation, Part
from isoscope.files.npy import MAX_HEADER_BYTES, read_npy, read_npz
from tests.uploads.good import npy


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
