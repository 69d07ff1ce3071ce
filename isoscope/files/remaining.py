"""What is left of a matrix without some of its rows and dimensions: a selection of the same files, not a copy."""

from collections.abc import Iterator, Sequence
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from isoscope.files.contents import Block, Contents


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
