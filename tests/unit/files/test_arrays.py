import io
from contextlib import closing

import numpy as np
import pytest

from isoscope.core.errors import InvalidError
from isoscope.files import arrays
from isoscope.files.arrays import StoredArray, shape_text

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
