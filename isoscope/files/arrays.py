"""Arrays in a file, by their headers: which can be vectors, and which can name or label rows."""

import math
import sys
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import IO, Any, cast

import numpy as np

from isoscope.core.errors import InvalidError, TooLargeError
from isoscope.core.formatting import quote, storable
from isoscope.files.contents import MAX_COLUMN_BLOCK_BYTES, Block, Contents, Part, annotation_of

BFLOAT16 = "bfloat16"
ANNOTATION_ROWS = 65_536
MAX_LISTED = 5
# A longer first axis of three is unlikely to be layers.
MAX_LAYERS = 200
MAX_PARTS = 1000

Opener = Callable[[], AbstractContextManager[IO[bytes]]]


@dataclass(frozen=True)
class Array(ABC):
    """An array of which only the header has been read."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    type_name: str
    """The container's name of the type. bfloat16, which numpy lacks, has the ``dtype`` uint16 of its bits."""

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def is_numeric(self) -> bool:
        return self.dtype.kind in "biuf" and self.dtype.itemsize <= 8

    @property
    def is_matrix(self) -> bool:
        return len(self.shape) == 2 and self.size_bytes > 0 and self.is_numeric

    @property
    def is_annotation(self) -> bool:
        return len(self.shape) == 1 and self.size_bytes > 0 and self.dtype.kind in "USbiu"

    @abstractmethod
    def blocks(self, rows: int, *, transpose: bool) -> Iterator[Block]:
        """Yield a matrix, or its transpose, in blocks [at most ``rows``, columns]."""

    @abstractmethod
    def values(self) -> Iterator[str]:
        """Yield the values of an array of one dimension as text."""


@dataclass(frozen=True)
class StoredArray(Array):
    """An array stored as one contiguous run of bytes."""

    fortran: bool
    offset: int
    open: Opener

    def layers(self) -> "Sequence[StoredArray]":
        """Return the matrices of an array [layers, n, d] in C order, at most ``MAX_LAYERS``; else an empty sequence."""
        is_filled = self.is_numeric and self.size_bytes > 0
        if len(self.shape) != 3 or not is_filled or self.fortran or self.shape[0] > MAX_LAYERS:
            return ()
        layer_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        return [
            replace(self, name=f"{self.name}[{layer}]", shape=self.shape[1:], offset=self.offset + layer * layer_bytes)
            for layer in range(self.shape[0])
        ]

    def require_size(self, held_bytes: int) -> None:
        """Raise InvalidError if the header declares more or fewer bytes than there are."""
        if self.size_bytes != held_bytes:
            raise InvalidError(
                f"The header of {self.name!r} declares {self.size_bytes:,} bytes ({shape_text(self.shape)} of "
                f"{self.type_name}), but {held_bytes:,} follow: the file was cut off or altered. Write it again."
            )

    def blocks(self, rows: int, *, transpose: bool) -> Iterator[Block]:
        n, columns = self.shape
        if self.fortran:
            n, columns = columns, n
        if transpose == self.fortran:  # the file stores the requested rows one after another
            yield from self._row_blocks(n, columns, rows)
            return
        step = max(1, min(rows, MAX_COLUMN_BLOCK_BYTES // (n * self.dtype.itemsize)))
        with self.open() as stream:
            for start in range(0, columns, step):
                block = np.empty((n, min(step, columns - start)), self.dtype)
                for i in range(n):
                    self._fill(block[i], stream, i * columns + start)
                yield self._decode_bfloat16(block).T

    def values(self) -> Iterator[str]:
        for block in self._row_blocks(self.shape[0], 1, ANNOTATION_ROWS):
            # numpy stores 32 bits per character and does not check that they are Unicode.
            if self.dtype.kind == "U" and block.view(f"{self.dtype.byteorder}u4").max() > sys.maxunicode:
                raise InvalidError(f"The array {self.name!r} holds text that is not Unicode: write the file again.")
            yield from map(value_text, block[:, 0].tolist())

    def _row_blocks(self, n: int, columns: int, step: int) -> Iterator[Block]:
        with self.open() as stream:
            for start in range(0, n, step):
                block = np.empty((min(step, n - start), columns), self.dtype)
                self._fill(block, stream, start * columns)
                yield self._decode_bfloat16(block)

    def _fill(self, block: Block, stream: IO[bytes], position: int) -> None:
        memory = block.reshape(-1).view(np.uint8).data
        try:
            stream.seek(self.offset + position * self.dtype.itemsize)
            filled = stream.readinto(memory)  # type: ignore[attr-defined]  # every binary stream has it
        except (OSError, EOFError, zipfile.BadZipFile, zlib.error):
            filled = None
        if filled != len(memory):
            raise InvalidError(
                f"The values of {self.name!r} end early or are damaged: write the file again, or upload it again."
            )

    def _decode_bfloat16(self, block: Block) -> Block:
        """Convert the bits of bfloat16, the upper half of a float32, to float32."""
        if self.type_name != BFLOAT16:
            return block
        return (block.astype(np.uint32) << np.uint32(16)).view(np.float32)


def shape_text(shape: tuple[int, ...]) -> str:
    return " x ".join(f"{length:,}" for length in shape) if shape else "a single value"


def value_text(value: object) -> str:
    if isinstance(value, bytes):
        return storable(value.decode("utf-8", "replace"))
    return storable(str(value))


class ArrayFile(Contents):
    """The arrays of an npy, npz, safetensors or HDF5 file, by name."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        if invalid_names := [array.name for array in arrays if storable(array.name) != array.name]:
            raise InvalidError(
                f"The array name {quote(invalid_names[0])} is not Unicode text: save it under another name."
            )
        self.parts = [_make_part(array) for array in arrays if array.is_matrix]
        layers: list[Array] = []
        for array in arrays:
            for number, layer in enumerate(array.layers() if isinstance(array, StoredArray) else ()):
                layers.append(layer)
                self.parts.append(_make_part(layer, array.name, number))
        if len(layers) > MAX_PARTS:
            raise TooLargeError(
                f"The arrays of three dimensions have {len(layers):,} layers in all, more than {MAX_PARTS:,}. Save "
                "fewer arrays in a file."
            )
        if not self.parts:
            raise InvalidError(_explain_no_matrix(arrays))
        self._arrays = {array.name: array for array in arrays}
        if clashing_names := [layer.name for layer in layers if layer.name in self._arrays]:
            raise InvalidError(
                f"{quote(clashing_names[0])} is both an array and a layer of one. Save one of them under another name."
            )
        self._arrays |= {layer.name: layer for layer in layers}
        self.n = 0
        self.numeric_columns = []
        self.annotations = [
            annotation_of(array.name, array.shape[0], array.values()) for array in arrays if array.is_annotation
        ]

    def blocks(self, vectors: str | list[str], rows: int, *, transpose: bool) -> Iterator[Block]:
        # ``Selection.check`` accepts only names of arrays here.
        return self._arrays[cast("str", vectors)].blocks(rows, transpose=transpose)

    def values(self, annotation: str) -> Iterator[str]:
        return self._arrays[annotation].values()


def _make_part(matrix: Array, stack: str | None = None, layer: int | None = None) -> Part:
    n, d = matrix.shape
    return Part(name=matrix.name, n=n, d=d, dtype=matrix.type_name, stack=stack, layer=layer)


def _explain_no_matrix(arrays: Sequence[Array]) -> str:
    if not arrays:
        return "The file holds no array: expected one with a row for each vector. Write it again."
    array = max(arrays, key=lambda array: (array.is_numeric, len(array.shape) == 2, array.size_bytes))
    if not array.is_numeric:
        advice = f"{array.type_name} is not a type of real numbers that is read here; convert it to float32"
    elif len(array.shape) in (2, 3) and array.size_bytes == 0:
        advice = "it has no rows or no columns, so there is nothing to measure"
    elif len(array.shape) == 3 and array.shape[0] > MAX_LAYERS:
        advice = (
            f"of three dimensions the first are layers, at most {MAX_LAYERS}; use x.mean(axis=1) or "
            "x.reshape(-1, x.shape[-1]) to get one vector a row"
        )
    elif len(array.shape) == 3:
        advice = "save one layer of it, or all in a .npy file in C order by numpy.ascontiguousarray(x)"
    elif len(array.shape) > 3:
        advice = (
            "at most three dimensions are read, layers, rows and columns; take the mean over another, such as "
            "x.mean(axis=2) over tokens"
        )
    else:
        advice = "one dimension is not a matrix; use x.reshape(-1, d) with d values a vector, or x.reshape(-1, 1)"
    descriptions = ", ".join(
        f"{quote(candidate.name)} ({shape_text(candidate.shape)}, {candidate.type_name})"
        for candidate in arrays[:MAX_LISTED]
    )
    return f"Expected an array of numbers with rows and columns, found {descriptions}: {advice}."
