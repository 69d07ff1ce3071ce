"""The header of an npy array: which values follow it, and how many."""

import ast
import re
from pathlib import Path
from typing import IO, Any

import numpy as np

from app.formats.arrays import Opener, StoredArray
from isoscope.core.errors import InvalidError

MAGIC = b"\x93NUMPY"
MAX_HEADER_BYTES = 10_000
MAX_DIMENSIONS = 32
MAX_LENGTH = 2**63 - 1

LENGTH_BYTES = {b"\x01\x00": 2, b"\x02\x00": 4, b"\x03\x00": 4}
"""How long the length of the header is, by version."""

DTYPE = re.compile(r"[<>|=]?[?biufcmMSUVO]\d{0,8}(\[\d{0,8}[a-zA-Z]{1,2}\])?")


def read_npy(path: Path) -> list[StoredArray]:
    """Return the one array of a file."""
    with path.open("rb") as stream:
        array = read_header(stream, "array", lambda: path.open("rb"))
    array.require_size(path.stat().st_size - array.offset)
    return [array]


def read_header(stream: IO[bytes], name: str, open_: Opener) -> StoredArray:
    """Return the array whose npy bytes begin where the stream stands; nothing behind its header is read.

    numpy can read it too, but answers a hostile header with whatever its tokenizer, parser or dtype happens to raise.
    """
    header = _parse(_read_text(stream, name), name)
    shape, fortran, dtype = header["shape"], header["fortran_order"], _dtype(header["descr"], name)
    if not isinstance(fortran, bool):
        raise _bad(name, "its fortran_order is neither True nor False")
    if not isinstance(shape, tuple) or len(shape) > MAX_DIMENSIONS or not all(map(_is_length, shape)):
        raise _bad(name, f"its shape is not a tuple of at most {MAX_DIMENSIONS} lengths")
    columns_first = fortran and len(shape) == 2
    return StoredArray(name, shape, dtype, dtype.name, columns_first, stream.tell(), open_)


def _read_text(stream: IO[bytes], name: str) -> str:
    if stream.read(len(MAGIC)) != MAGIC:
        raise _bad(name, "it does not begin as npy does")
    if (length_bytes := LENGTH_BYTES.get(stream.read(2))) is None:
        raise _bad(name, "its version is none of 1.0, 2.0 and 3.0")
    length = int.from_bytes(stream.read(length_bytes), "little")
    if length > MAX_HEADER_BYTES:
        raise _bad(name, f"it declares {length:,} bytes, more than {MAX_HEADER_BYTES:,}")
    text = stream.read(length)
    if len(text) != length:
        raise _bad(name, "it ends early")
    return text.decode("utf-8", "replace")


def _parse(text: str, name: str) -> dict[str, Any]:
    """Return the header, which is the text of a Python dict."""
    try:
        header = ast.literal_eval(text.strip())  # builds numbers, texts, tuples and dicts; runs nothing
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        raise _bad(name, "it is not the text of a dict") from None
    if not isinstance(header, dict) or header.keys() != {"descr", "fortran_order", "shape"}:
        raise _bad(name, "it does not hold descr, fortran_order and shape")
    return header


def _dtype(described: object, name: str) -> np.dtype[Any]:
    if isinstance(described, list):
        raise InvalidError(
            f"The array {name!r} holds records, expected plain numbers: save one array for each field, "
            "e.g. numpy.save(\"file.npy\", records['vector'])."
        )
    if not isinstance(described, str) or not DTYPE.fullmatch(described):
        raise _bad(name, "its descr is no type of numpy")
    try:
        dtype = np.dtype(described)
    except (TypeError, ValueError):
        raise _bad(name, f"its descr {described!r} is no type of numpy") from None
    if dtype.hasobject:
        raise InvalidError(
            f"The array {name!r} holds Python objects (dtype object), which numpy pickles and which are never loaded "
            "here: save numbers, e.g. numpy.stack(rows).astype('float32'), and names as numpy.array(names, dtype='U')."
        )
    return dtype


def _is_length(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_LENGTH


def _bad(name: str, what: str) -> InvalidError:
    return InvalidError(
        f"The header of the npy array {name!r} cannot be read: {what}. The file was cut off, altered, or is something "
        'else: write it again with numpy.save("file.npy", array).'
    )
