import numpy as np
import pytest
from numpy.lib import format as npy_format

from isoscope.core.errors import InvalidError
from isoscope.files.arrays import ArrayFile
from isoscope.files.npy import MAX_HEADER_BYTES, read_npy


@pytest.fixture
def saved(tmp_path):
    def save(array, **kwargs):
        path = tmp_path / "x.npy"
        np.save(path, array, **kwargs)
        return path

    return save


def with_header(path, text, data=b""):
    header = text.encode()
    path.write_bytes(npy_format.MAGIC_PREFIX + b"\x01\x00" + len(header).to_bytes(2, "little") + header + data)
    return path


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", "i1", "u2", "i8", "?"])
def test_header_gives_shape_and_type(saved, dtype):
    (array,) = read_npy(saved(np.ones((7, 3), dtype)))
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


def test_truncated_file_and_trailing_bytes_are_refused(saved):
    path = saved(np.ones((10, 10)))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InvalidError, match=r"declares 800 bytes .*, but 799 follow: the file was cut off or altered"):
        read_npy(path)
    path = saved(np.ones((2, 2)))
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
def test_array_that_is_no_matrix_is_refused_with_advice(saved, array, sentence):
    with pytest.raises(InvalidError, match=sentence):
        ArrayFile(read_npy(saved(array)))


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
def test_unknown_version_is_refused(saved, version):
    path = saved(np.ones((2, 2)))
    content = path.read_bytes()
    path.write_bytes(content[:6] + version + content[8:])
    with pytest.raises(InvalidError, match=r"its version is none of 1.0, 2.0 and 3.0"):
        read_npy(path)
