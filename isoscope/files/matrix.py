"""A matrix of embeddings, read from its files in chunks of rows, and counts over all of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isoscope.core.errors import TooLargeError
from isoscope.files.arrays import BFLOAT16
from isoscope.files.contents import MAX_ROWS, Block, Contents
from isoscope.files.selection import Selection
from isoscope.files.upload import Upload, open_upload

MAX_CHUNK_BYTES = 32 * 2**20
DIGEST_BYTES = 16


@dataclass(frozen=True)
class Matrix:
    """The chosen vectors [n, d] with the names and labels of their rows."""

    contents: Contents
    selection: Selection
    n: int
    d: int
    dtype: np.dtype[Any]
    """float32 or float64: what the chunks hold, whatever the file holds."""
    row_places: NDArray[np.int64] | None = None
    """The place in the file of each row; None where the selection leaves no row out."""
    dimension_numbers: NDArray[np.int64] | None = None
    """The number in the file of each dimension; None where the selection leaves none out."""

    def chunks(self, rows: int = 8192) -> Iterator[Block]:
        """Yield all rows in file order as arrays [at most ``rows``, d] of ``dtype``: fewer where rows are very long."""
        rows = max(1, min(rows, MAX_CHUNK_BYTES // (self.d * self.dtype.itemsize)))
        blocks = self.contents.blocks(self.selection.vectors, rows, transpose=self.selection.transpose)
        return map(self._converted, blocks)

    def in_file(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places in the file of some of the rows."""
        return rows if self.row_places is None else self.row_places[rows]

    def names(self) -> list[str] | None:
        """Return the name of each row, n of them; None where none were chosen."""
        return self._values(self.selection.names)

    def labels(self) -> list[str] | None:
        """Return the label of each row, n of them; None where none were chosen."""
        return self._values(self.selection.labels)

    @property
    def dimension_names(self) -> list[str] | None:
        """The columns that the dimensions come from; None where they have no names."""
        selection = self.selection
        return None if isinstance(selection.vectors, str) or selection.transpose else selection.columns

    def groups(self) -> Iterator[str] | None:
        """Return the group of each row, n of them; None where none were chosen."""
        return None if self.selection.groups is None else self.contents.values(self.selection.groups)

    def _converted(self, block: Block) -> Block:
        with np.errstate(invalid="ignore"):  # NaN is counted by whoever looks at the values
            return np.ascontiguousarray(block, self.dtype)

    def _values(self, annotation: str | None) -> list[str] | None:
        return None if annotation is None else list(self.contents.values(annotation))


def open_matrix(upload: Upload, selection: Selection) -> Matrix:
    """Open the matrix that ``selection`` makes of the files; the vectors are read as chunks are asked for."""
    return select(open_upload(upload, selection.quoting)[1], selection)


def select(contents: Contents, selection: Selection) -> Matrix:
    """Return the matrix that ``selection`` makes of opened files."""
    selection.check(contents)
    n, d = contents.shape(selection.vectors)
    if selection.transpose:
        n, d = d, n
    if n > MAX_ROWS:
        raise TooLargeError(
            f"The matrix has {n:,} rows, more than {MAX_ROWS:,}: upload a sample of them, "
            "which measures the same as soon as it has many more rows than columns."
        )
    matrix = Matrix(contents, selection, n, d, _float_type(contents.dtype(selection.vectors)))
    return _remaining(matrix) if selection.without_rows or selection.without_dimensions else matrix


def _remaining(whole: Matrix) -> Matrix:
    rows, dimensions = whole.selection.left(whole.n, whole.d)
    return replace(
        whole,
        contents=Remaining(whole.contents, rows, whole.n, dimensions),
        n=len(rows),
        d=len(dimensions),
        row_places=rows if whole.selection.without_rows else None,
        dimension_numbers=dimensions if whole.selection.without_dimensions else None,
    )


def _float_type(stored: str) -> np.dtype[Any]:
    """Return float32 where it holds every value of the stored type, else float64 (which rounds 64-bit integers)."""
    return np.promote_types("float32" if stored == BFLOAT16 else stored, "float32")


class MatrixStats:
    """Counts rows that no measure sees and rows that are suspect, with 16 bytes of memory for each."""

    def __init__(self) -> None:
        self.n = 0
        self.n_nonfinite = 0
        self.n_zero = 0
        self._digests = bytearray()

    def add(self, block: Block) -> None:
        """Count the rows of a block [k, d] of float32 or float64."""
        finite = block[np.isfinite(block).all(axis=1)]
        self.n += len(block)
        self.n_nonfinite += len(block) - len(finite)
        self.n_zero += int(np.count_nonzero(~finite.any(axis=1)))
        # Adding zero turns -0.0 into 0.0, which is the same number in other bytes.
        for row in finite + 0.0:
            self._digests += blake2b(row, digest_size=DIGEST_BYTES).digest()

    @property
    def n_duplicate(self) -> int:
        """Finite rows equal to an earlier one."""
        digests: NDArray[np.bytes_] = np.frombuffer(self._digests, f"S{DIGEST_BYTES}")
        return len(digests) - len(np.unique(digests))


class Remaining(Contents):
    """Contents of which a matrix [n, d] is chosen, read without some of its rows and dimensions.

    Columns and arrays are chosen from all that the files hold, annotations among those of the whole matrix's rows.

    Args:
        contents: all that the files hold.
        rows: the places of all rows that are left, in order, of ``n``.
        n: rows of the whole matrix.
        dimensions: the numbers of all dimensions that are left, in order.

    """

    def __init__(self, contents: Contents, rows: NDArray[np.int64], n: int, dimensions: NDArray[np.int64]) -> None:
        self._contents = contents
        self._kept = np.zeros(n, bool)
        self._kept[rows] = True
        self._dimensions = dimensions
        self.n, self.parts = contents.n, contents.parts
        self.numeric_columns, self.real_columns = contents.numeric_columns, contents.real_columns
        self.annotations = [one.model_copy(update={"n": len(rows)}) for one in contents.annotations if one.n == n]

    def blocks(self, vectors: str | list[str], rows: int, *, transpose: bool) -> Iterator[Block]:
        """Return the rows that are left from top to bottom, with the dimensions that are left."""
        read = 0
        for block in self._contents.blocks(vectors, rows, transpose=transpose):
            kept = self._kept[read : read + len(block)]
            read += len(block)
            if kept.any():
                yield block[kept][:, self._dimensions]

    def values(self, annotation: str) -> Iterator[str]:
        """Return the values of the rows that are left."""
        return compress(self._contents.values(annotation), self._kept)

    def rows_of(self, annotations: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Return the values of several annotations, of the rows that are left."""
        return compress(self._contents.rows_of(annotations), self._kept)
