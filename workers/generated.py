"""Files that are made while they are read: none needs memory of its size, or lies about half-written."""

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

ARRAY = "array"
"""What readers call the one array of an .npy file."""
NAME, LABEL, GROUP = "name", "label", "group"
"""Columns of a file that names and labels the rows of another."""
LINES = 4096
"""Lines of a block."""


class _Generated(io.RawIOBase):
    def __init__(self, blocks: Iterator[bytes | memoryview]) -> None:
        super().__init__()
        self._blocks = blocks
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            if (block := next(self._blocks, None)) is None:
                return 0
            self._left = memoryview(block).cast("B")
        taken = self._left[: len(buffer)]
        buffer[: len(taken)] = taken
        self._left = self._left[len(taken) :]
        return len(taken)


def npy_file(n: int, d: int, dtype: np.dtype[Any], blocks: Iterable[NDArray[Any]]) -> BinaryIO:
    """Return an .npy file of a matrix [n, d] that comes from top to bottom in blocks of rows."""

    def parts() -> Iterator[bytes | memoryview]:
        header = io.BytesIO()
        stored = dtype.newbyteorder("<")
        described = {"descr": np.lib.format.dtype_to_descr(stored), "fortran_order": False, "shape": (n, d)}
        np.lib.format.write_array_header_1_0(header, described)
        yield header.getvalue()
        for block in blocks:
            yield np.ascontiguousarray(block, stored).data

    return _reading(parts())


def jsonl_file(columns: Mapping[str, Iterable[str]]) -> BinaryIO:
    """Return a file of JSON lines, an object of all columns a row."""

    def parts() -> Iterator[bytes | memoryview]:
        lines: list[str] = []
        for values in zip(*columns.values(), strict=True):
            lines.append(json.dumps(dict(zip(columns, values, strict=True))))
            if len(lines) == LINES:
                yield _joined(lines)
                lines.clear()
        yield _joined(lines)

    return _reading(parts())


def _reading(parts: Iterator[bytes | memoryview]) -> BinaryIO:
    return cast("BinaryIO", io.BufferedReader(_Generated(parts)))


def _joined(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
