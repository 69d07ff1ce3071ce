"""The contents of an embeddings file, whatever its format."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from isoscope.core.formatting import storable
from isoscope.files.strict import Frozen

Block = NDArray[Any]

# Distinct values are counted up to one more than this, which means "more than 1,000".
MAX_DISTINCT = 1000
EXAMPLE_CHARACTERS = 60
MAX_ROWS = 50_000_000
PRUNE_INTERVAL_ROWS = 1000
# Maximum size of the columns held at once when a row-major matrix is read transposed.
MAX_COLUMN_BLOCK_BYTES = 64 * 2**20


class Part(Frozen):
    """An array [n, d] that could be the vectors."""

    name: str
    n: int
    d: int
    dtype: str
    # Name of the array [layers, n, d] that this is a layer of.
    stack: str | None = None
    layer: int | None = None


class Annotation(Frozen):
    """A column, or an array of one dimension, that could name or label the rows."""

    name: str
    n: int
    n_distinct: int
    examples: list[str]


class Offer(Protocol):
    """Parts of a file to choose from: either ``parts`` (arrays, lists) or ``numeric_columns``."""

    @property
    def parts(self) -> list[Part]: ...

    @property
    def numeric_columns(self) -> list[str]: ...

    @property
    def annotations(self) -> list[Annotation]: ...


class Contents(ABC):
    """An opened file whose structure is checked; its values can be read repeatedly."""

    n: int
    parts: list[Part]
    numeric_columns: list[str]
    annotations: list[Annotation]
    # Columns of fractions beside a column of vectors: neither coordinates nor labels, but kept.
    real_columns: list[str] = []  # noqa: RUF012 - replaced, never changed

    def shape(self, vectors: str | list[str]) -> tuple[int, int]:
        if isinstance(vectors, list):
            return self.n, len(vectors)
        part = self.part(vectors)
        return part.n, part.d

    def dtype(self, vectors: str | list[str]) -> str:
        return "float64" if isinstance(vectors, list) else self.part(vectors).dtype

    def part(self, name: str) -> Part:
        return next(part for part in self.parts if part.name == name)

    @abstractmethod
    def blocks(self, vectors: str | list[str], rows: int, *, transpose: bool) -> Iterator[Block]:
        """Yield the matrix, or its transpose, in blocks [at most ``rows``, columns]."""

    @abstractmethod
    def values(self, annotation: str) -> Iterator[str]:
        """Yield the text of an annotation for each row."""

    def rows_of(self, annotations: Sequence[str]) -> Iterator[tuple[str, ...]]:
        return zip(*map(self.values, annotations), strict=True)


def annotation_of(name: str, n: int, values: Iterable[str]) -> Annotation:
    distinct: dict[str, None] = {}
    for value in values:
        distinct[value] = None
        if len(distinct) > MAX_DISTINCT:
            break
    return Annotation(name=name, n=n, n_distinct=len(distinct), examples=examples(distinct))


def examples(values: Iterable[str]) -> list[str]:
    return [value[:EXAMPLE_CHARACTERS] for value in islice(values, 3)]


def cell_text(value: object) -> str:
    """Return a value as a name or label; 3.0 becomes 3, because integers with missing values are stored as floats."""
    if isinstance(value, str):
        return storable(value).strip()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)


class AnnotationStats:
    """Counts of rows, and of distinct values of some columns up to 1,001."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.n = 0
        self._distinct: dict[str, dict[str, None]] = {name: {} for name in columns}
        self._counted_columns = list(enumerate(self._distinct.values()))

    def add(self, row: Sequence[object]) -> None:
        self.n += 1
        for i, values in self._counted_columns:
            values[cell_text(row[i])] = None
        if self.n % PRUNE_INTERVAL_ROWS == 0:  # stop counting columns of too many values
            self._counted_columns = [(i, values) for i, values in self._counted_columns if len(values) <= MAX_DISTINCT]

    def annotations(self) -> list[Annotation]:
        return [annotation_of(name, self.n, values) for name, values in self._distinct.items()]


class RowFile(Contents):
    """A file whose rows can only be read in order: a table, or lists of numbers."""

    @abstractmethod
    def rows(self, vectors: str | list[str], step: int) -> Iterator[Block]:
        """Yield the vectors in blocks [at most ``step``, d]."""

    def blocks(self, vectors: str | list[str], rows: int, *, transpose: bool) -> Iterator[Block]:
        if not transpose:
            return self.rows(vectors, rows)
        if isinstance(vectors, list):
            return transpose_blocks(lambda columns: self.rows(vectors[columns], rows), *self.shape(vectors), rows)
        return transpose_blocks(
            lambda columns: (block[:, columns] for block in self.rows(vectors, rows)), *self.shape(vectors), rows
        )


def transpose_blocks(read: Callable[[slice], Iterator[Block]], n: int, d: int, step: int) -> Iterator[Block]:
    """Yield the transpose of [n, d] in blocks [at most ``step``, n]. Call ``read`` on the columns of each block."""
    step = max(1, min(step, MAX_COLUMN_BLOCK_BYTES // (8 * n)))
    for start in range(0, d, step):
        columns = slice(start, min(start + step, d))
        block = np.empty((n, columns.stop - start))
        filled = 0
        for rows in read(columns):
            block[filled : filled + len(rows)] = rows
            filled += len(rows)
        yield block.T
