"""The header of a safetensors file: a length, a JSON object of names, types, shapes and offsets, then the values.

It is checked here rather than by the safetensors library, which knows no bfloat16 in numpy and maps the whole file.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.files.arrays import BFLOAT16, ArrayFile, StoredArray
from isoscope.files.jsonl import reject_duplicate_keys
from isoscope.files.text import Quoting

MAX_HEADER_BYTES = 16 * 2**20
MAX_ARRAYS = 1000
MAX_DIMENSIONS = 32
LENGTH_BYTES = 8

TYPE_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": BFLOAT16,
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip


def open_vectors(path: Path, _: Quoting | None = None) -> ArrayFile:
    return ArrayFile(read_safetensors(path))


def read_safetensors(path: Path) -> list[StoredArray]:
    """Return the arrays of a file in the order of their values, which must fill it without gap or overlap."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(LENGTH_BYTES), "little")
        if size < LENGTH_BYTES or length > size - LENGTH_BYTES:
            raise _header_error(f"it declares a header of {length:,} bytes, but the file has {size:,}")
        if length > MAX_HEADER_BYTES:
            raise _header_error(f"its header of {length:,} bytes is longer than {MAX_HEADER_BYTES:,}")
        text = stream.read(length)
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=reject_duplicate_keys)
    except (ValueError, RecursionError) as error:
        raise _header_error(f"its header is not the JSON it should be ({str(error)[:120]})") from None
    if not isinstance(header, dict):
        raise _header_error("its header is not a JSON object")
    header.pop("__metadata__", None)
    if len(header) > MAX_ARRAYS:
        raise TooLargeError(
            f"The file has {len(header):,} arrays, more than {MAX_ARRAYS:,}: these look like a model's weights. "
            "Upload the embeddings that the model makes."
        )
    data_start = LENGTH_BYTES + length
    entries = sorted((_read_offsets(name, entry), name, entry) for name, entry in header.items())
    end = 0
    arrays = []
    for (start, stop), name, entry in entries:
        if start != end:
            raise _header_error(
                f"the values of {name[:80]!r} overlap others or leave a gap (from byte {start:,}, not {end:,})"
            )
        end = stop
        arrays.append(_make_array(path, name, entry, data_start + start))
        arrays[-1].require_size(stop - start)
    if data_start + end != size:
        raise _header_error(f"its header declares {data_start + end:,} bytes in all, but the file has {size:,}")
    return arrays


def _read_offsets(name: str, entry: object) -> tuple[int, int]:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise _header_error(f"{name[:80]!r} is not described by dtype, shape and data_offsets")
    offsets = entry["data_offsets"]
    if not _are_lengths(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _header_error(f"the data_offsets of {name[:80]!r} are {str(offsets)[:80]}, expected [begin, end]")
    return offsets[0], offsets[1]


def _make_array(path: Path, name: str, entry: dict[str, Any], offset: int) -> StoredArray:
    shape, declared_type = entry["shape"], entry["dtype"]
    if not _are_lengths(shape) or len(shape) > MAX_DIMENSIONS:
        raise _header_error(f"the shape of {name[:80]!r} is {str(shape)[:80]}, expected a list of lengths")
    if not isinstance(declared_type, str) or declared_type not in TYPE_NAMES:
        raise InvalidError(
            f"{name[:80]!r} has the type {str(declared_type)[:20]}, expected one of {', '.join(TYPE_NAMES)}: "
            "convert it with x.to(torch.float32) before saving."
        )
    type_name = TYPE_NAMES[declared_type]
    dtype = np.dtype("<u2" if type_name == BFLOAT16 else type_name).newbyteorder("<")
    return StoredArray(name, tuple(shape), dtype, type_name, fortran=False, offset=offset, open=lambda: path.open("rb"))


def _are_lengths(value: object) -> bool:
    return isinstance(value, list) and all(type(length) is int and 0 <= length < 2**63 for length in value)


def _header_error(problem: str) -> InvalidError:
    return InvalidError(
        f"The safetensors file cannot be read: {problem}. It was cut off, altered, or is something else: write it "
        "again with safetensors.numpy.save_file."
    )
