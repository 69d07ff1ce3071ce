"""A file whose rows can only be read in order: a table, or lists of numbers a row."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from app.formats.contents import MAX_COLUMN_BLOCK_BYTES, Annotation, Block, Part


class RowFile(ABC):
    """``app.formats.contents.Contents`` for whoever can give rows from top to bottom."""

    n: int
    """Rows of the file."""
    parts: list[Part]
    numeric_columns: list[str]
    annotations: list[Annotation]

    @abstractmethod
    def rows(self, vectors: str | list[str], step: int) -> Iterator[Block]:
        """Yield all rows in blocks [at most ``step``, columns]."""

    @abstractmethod
    def values(self, annotation: str) -> Iterator[str]:
        """Yield the values of an annotation as text, one a row."""

    def shape(self, vectors: str | list[str]) -> tuple[int, int]:
        """Rows of the file, and the numbers that the vectors have in each."""
        return (self.n, len(vectors)) if isinstance(vectors, list) else (self.n, self._part(vectors).d)

    def dtype(self, vectors: str | list[str]) -> str:
        """The type of a part; columns are read as float64."""
        return "float64" if isinstance(vectors, list) else self._part(vectors).dtype

    def blocks(self, vectors: str | list[str], rows: int, *, transpose: bool) -> Iterator[Block]:
        """Return the vectors, or their transpose, from top to bottom."""
        if not transpose:
            return self.rows(vectors, rows)
        n, d = self.shape(vectors)
        return transposed(partial(self._columns, vectors, rows), n, d, rows)

    def _columns(self, vectors: str | list[str], step: int, chosen: slice) -> Iterator[Block]:
        if isinstance(vectors, list):
            return self.rows(vectors[chosen], step)
        return (block[:, chosen] for block in self.rows(vectors, step))

    def _part(self, name: str) -> Part:
        return next(part for part in self.parts if part.name == name)


def transposed(read: Callable[[slice], Iterator[Block]], n: int, d: int, step: int) -> Iterator[Block]:
    """Yield the transpose of [n, d] in blocks [at most ``step``, n], reading all rows once for each.

    ``read`` starts at the first row and gives some of the columns.
    """
    step = max(1, min(step, MAX_COLUMN_BLOCK_BYTES // (8 * n)))
    for start in range(0, d, step):
        chosen = slice(start, min(start + step, d))
        block = np.empty((n, chosen.stop - start))
        filled = 0
        for rows in read(chosen):
            block[filled : filled + len(rows)] = rows
            filled += len(rows)
        yield block.T
