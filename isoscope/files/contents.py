"""What an embeddings file offers, whatever its format."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from isoscope.core.formatting import storable
from isoscope.files.strict import Frozen

Block = NDArray[Any]
"""Some rows of a matrix [k, d]."""

MAX_DISTINCT = 1000
"""Distinct values are counted up to one more than this, which then means "more than 1,000"."""
EXAMPLE_CHARACTERS = 60
MAX_ROWS = 50_000_000
PRUNED_EVERY_ROWS = 1000
MAX_COLUMN_BLOCK_BYTES = 64 * 2**20
"""Of the columns that are held at once where a matrix stored row after row is read transposed."""


class Part(Frozen):
    """An array [n, d] that could be the vectors."""

    name: str
    n: int
    d: int
    dtype: str
    stack: str | None = None
    """The array [layers, n, d] that it is one layer of; None of other arrays."""
    layer: int | None = None
    """Which one, from 0."""


class Annotation(Frozen):
    """A column, or an array of one dimension, that could be the names or the labels of the rows."""

    name: str
    n: int
    n_distinct: int
    """1,001 means more than 1,000."""
    examples: list[str]


class Offer(Protocol):
    """What can be chosen from. Arrays and lists are ``parts``, other tables have ``numeric_columns``: never both."""

    @property
    def parts(self) -> list[Part]:
        """Arrays that could be the vectors."""
        ...

    @property
    def numeric_columns(self) -> list[str]:
        """Columns that could be the vectors together."""
        ...

    @property
    def annotations(self) -> list[Annotation]:
        """What could name or label the rows."""
        ...


class Contents(ABC):
    """An opened file whose structure is checked and whose values are yet to be read, again and again if need be."""

    n: int
    """Rows of columns of numbers, which are read as float64."""
    parts: list[Part]
    numeric_columns: list[str]
    annotations: list[Annotation]
    real_columns: list[str] = []  # noqa: RUF012 - replaced, never changed
    """Columns of fractions beside a column of vectors: neither coordinates nor labels, but kept."""

    def shape(self, vectors: str | list[str]) -> tuple[int, int]:
        """Rows and columns as stored."""
        if isinstance(vectors, list):
            return self.n, len(vectors)
        part = self.part(vectors)
        return part.n, part.d

    def dtype(self, vectors: str | list[str]) -> str:
        """The name of the type as stored."""
        return "float64" if isinstance(vectors, list) else self.part(vectors).dtype

    def part(self, name: str) -> Part:
        """Return the part of a name that ``Selection.check`` has let pass."""
        return next(part for part in self.parts if part.name == name)

    @abstractmethod
    def blocks(self, vectors: str | list[str], rows: int, *, transpose: bool) -> Iterator[Block]:
        """Return the matrix, or its transpose, from top to bottom in blocks [at most ``rows``, columns]."""

    @abstractmethod
    def values(self, annotation: str) -> Iterator[str]:
        """Return the values of an annotation as text, one a row."""

    def rows_of(self, annotations: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Return the values of some annotations as text, a tuple a row."""
        return zip(*map(self.values, annotations), strict=True)


def annotation_of(name: str, n: int, values: Iterable[str]) -> Annotation:
    """Describe a column by its values, of which no more are taken than it needs."""
    distinct: dict[str, None] = {}
    for value in values:
        distinct[value] = None
        if len(distinct) > MAX_DISTINCT:
            break
    return Annotation(name=name, n=n, n_distinct=len(distinct), examples=examples(distinct))


def examples(values: Iterable[str]) -> list[str]:
    """Return the first three values, cut short."""
    return [value[:EXAMPLE_CHARACTERS] for value in islice(values, 3)]


def cell_text(value: object) -> str:
    """Return a value as a name or a label; 3.0 is 3, as whole numbers beside missing ones are stored."""
    if isinstance(value, str):
        return storable(value).strip()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)


class AnnotationStats:
    """Counts rows, and the different values of some columns up to one more than 1,000."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.n = 0
        self._distinct: dict[str, dict[str, None]] = {name: {} for name in columns}
        self._open = list(enumerate(self._distinct.values()))

    def add(self, row: Sequence[object]) -> None:
        """Take the values of the columns in the next row."""
        self.n += 1
        for i, values in self._open:
            values[cell_text(row[i])] = None
        if self.n % PRUNED_EVERY_ROWS == 0:
            self._open = [(i, values) for i, values in self._open if len(values) <= MAX_DISTINCT]

    def annotations(self) -> list[Annotation]:
        """Describe the columns by the rows taken so far."""
        return [annotation_of(name, self.n, values) for name, values in self._distinct.items()]


class RowFile(Contents):
    """The contents of a file whose rows can only be read in order: a table, or lists of numbers a row."""

    @abstractmethod
    def rows(self, vectors: str | list[str], step: int) -> Iterator[Block]:
        """Yield all rows in blocks [at most ``step``, columns]."""

    def blocks(self, vectors: str | list[str], rows: int, *, transpose: bool) -> Iterator[Block]:
        """Return the vectors, or their transpose, from top to bottom."""
        if not transpose:
            return self.rows(vectors, rows)
        return transposed(partial(self._columns, vectors, rows), *self.shape(vectors), rows)

    def _columns(self, vectors: str | list[str], step: int, chosen: slice) -> Iterator[Block]:
        if isinstance(vectors, list):
            return self.rows(vectors[chosen], step)
        return (block[:, chosen] for block in self.rows(vectors, step))


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
