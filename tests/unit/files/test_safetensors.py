import json

import numpy as np
import pytest
import safetensors.numpy

from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.files.arrays import ArrayFile
from isoscope.files.contents import Part
from isoscope.files.safetensors import read_safetensors


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.safetensors"


def write(path, header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def entry(shape=(2, 2), dtype="F32", begin=0, end=16):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"])
def test_library_files_are_read(path, dtype):
    x = np.arange(6).reshape(2, 3).astype(dtype)
    safetensors.numpy.save_file({"x": x, "y": np.ones((4, 1))}, path, metadata={"model": "some"})

    contents = ArrayFile(read_safetensors(path))

    assert {part.name: (part.n, part.d) for part in contents.parts} == {"x": (2, 3), "y": (4, 1)}
    (block,) = contents.blocks("x", 10, transpose=False)
    np.testing.assert_array_equal(block, x)


def test_bfloat16_is_read_exactly(path):
    numbers = np.array([[1.0, -2.5], [np.inf, 3.140625]], np.float32)
    bits = (numbers.view(np.uint32) >> 16).astype("<u2")
    contents = ArrayFile(read_safetensors(write(path, {"x": entry(dtype="BF16", end=8)}, bits.tobytes())))
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
        (b'{"x": 1, "x": 2}', b"", None, "a name occurs twice"),
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
def test_invalid_header_is_refused(path, header, data, length, sentence):
    with pytest.raises(InvalidError, match=sentence):
        ArrayFile(read_safetensors(write(path, header, data, length)))


def test_short_file_long_header_and_model_weights_are_refused(path, monkeypatch):
    path.write_bytes(b"\x01\0\0\0\0\0\0")
    with pytest.raises(InvalidError, match="declares a header of 1 bytes, but the file has 7"):
        read_safetensors(path)
    header = {f"layer.{i}": entry(shape=(0, 4), end=0) for i in range(1001)}
    with pytest.raises(TooLargeError, match="1,001 arrays, more than 1,000: these look like a model's weights"):
        read_safetensors(write(path, header))
    monkeypatch.setattr("isoscope.files.safetensors.MAX_HEADER_BYTES", 20)
    with pytest.raises(InvalidError, match="is longer than 20"):
        read_safetensors(write(path, {"x": entry()}, bytes(16)))
