"""A matrix of embeddings, read from its file in chunks of rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.errors import TooLargeError
from app.formats.array_file import ArrayFile
from app.formats.arrays import BFLOAT16
from app.formats.contents import Block, Contents
from app.formats.delimited import DelimitedFile
from app.formats.detect import Format
from app.formats.npy import read_npy
from app.formats.npz import read_npz
from app.formats.safetensors import read_safetensors
from app.formats.selection import Selection

MAX_ROWS = 50_000_000
MAX_CHUNK_BYTES = 32 * 2**20

READERS: dict[Format, Callable[[Path], Contents]] = {
    Format.NPY: lambda path: ArrayFile(read_npy(path)),
    Format.NPZ: lambda path: ArrayFile(read_npz(path)),
    Format.SAFETENSORS: lambda path: ArrayFile(read_safetensors(path)),
    Format.CSV: lambda path: DelimitedFile(path, Format.CSV),
    Format.TSV: lambda path: DelimitedFile(path, Format.TSV),
}


@dataclass(frozen=True)
class Matrix:
    """The chosen vectors [n, d] with the names and labels of their rows."""

    contents: Contents
    selection: Selection
    n: int
    d: int
    dtype: np.dtype[Any]
    """float32 or float64: what the chunks hold, whatever the file holds."""

    def chunks(self, rows: int = 8192) -> Iterator[Block]:
        """Yield all rows in file order as arrays [at most ``rows``, d] of ``dtype``: fewer where rows are very long."""
        rows = max(1, min(rows, MAX_CHUNK_BYTES // (self.d * self.dtype.itemsize)))
        blocks = self.contents.blocks(self.selection.vectors, rows, transpose=self.selection.transpose)
        return map(self._converted, blocks)

    def names(self) -> list[str] | None:
        """Return the name of each row, n of them; None where none were chosen."""
        return self._values(self.selection.names)

    def labels(self) -> list[str] | None:
        """Return the label of each row, n of them; None where none were chosen."""
        return self._values(self.selection.labels)

    def _converted(self, block: Block) -> Block:
        with np.errstate(invalid="ignore"):  # NaN is counted by whoever looks at the values
            return np.ascontiguousarray(block, self.dtype)

    def _values(self, annotation: str | None) -> list[str] | None:
        return None if annotation is None else list(self.contents.values(annotation))


def open_contents(path: Path, file_format: Format) -> Contents:
    """Open a file and check its structure."""
    return READERS[file_format](path)


def open_matrix(path: Path, file_format: Format, selection: Selection) -> Matrix:
    """Open the matrix that ``selection`` makes of the file; the vectors are read as chunks are asked for."""
    return select(open_contents(path, file_format), selection)


def select(contents: Contents, selection: Selection) -> Matrix:
    """Return the matrix that ``selection`` makes of an opened file."""
    selection.check(contents)
    n, d = contents.shape(selection.vectors)
    if selection.transpose:
        n, d = d, n
    if n > MAX_ROWS:
        raise TooLargeError(
            f"The matrix has {n:,} rows, more than {MAX_ROWS:,}: upload a sample of them, "
            "which measures the same as soon as it has many more rows than columns."
        )
    return Matrix(contents, selection, n, d, _float_type(contents.dtype(selection.vectors)))


def _float_type(stored: str) -> np.dtype[Any]:
    """Return float32 where it holds every value of the stored type, else float64 (which rounds 64-bit integers)."""
    return np.promote_types("float32" if stored == BFLOAT16 else stored, "float32")
