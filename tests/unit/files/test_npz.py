import struct
import zipfile

import numpy as np
import pytest

from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.files import compressed
from isoscope.files.arrays import ArrayFile
from isoscope.files.contents import Annotation, Part
from isoscope.files.npy import read_npz
from tests.uploads.good import npy

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
