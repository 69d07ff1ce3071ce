"""The common interface to tables in csv, tsv, JSON lines, Parquet and plain lines.

Data sets, names and labels read its values; ``TableVectors`` reads vectors from lists or numbers in it.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import quote, storable
from isoscope.files.contents import Annotation, Block, Part, RowFile, cell_text
from isoscope.files.span import span_text
from isoscope.files.text import Quoting, lines

Scalar = str | int | float
# The number of each line or row, from 1, and its values.
Cells = Iterator[tuple[int, Sequence[Any]]]

MAX_COLUMNS = 1000
# Maximum number of columns offered as names or labels, text before numbers.
MAX_ANNOTATIONS = 64
LINE_NAME = "line"
# Integers under these names are labels or row counts, not coordinates.
NOT_VECTORS = frozenset({"class", "cluster", "group", "id", "idx", "index", "label", "label_id", "labels", "target"})


class Table(ABC):
    """Named columns whose rows can be read repeatedly; ``quoting`` is None unless tab-separated with quotes."""

    columns: list[str]
    quoting: Quoting | None = None
    row_label = "Line {}"

    @abstractmethod
    def cells(self, columns: Sequence[str]) -> Cells:
        """Yield the number of each line or row, and its values as the file holds them."""

    def rows(self, columns: Sequence[str] | None = None) -> Iterator[list[Scalar | None]]:
        columns = self.columns if columns is None else columns
        for number, cells in self.cells(columns):
            values: list[Scalar | None] = []
            for column, cell in zip(columns, cells, strict=True):
                if isinstance(cell, str):
                    values.append(storable(cell) if cell.strip() else None)
                elif isinstance(cell, dict):
                    values.append(span_text(cell, column, self.row_label.format(number)))
                else:
                    values.append(None if cell is None or cell != cell else cell)  # noqa: PLR0124 -- NaN is missing
            yield values


class ColumnTable(Table):
    """A table of one column. Each call of ``read`` yields its cells from the first."""

    def __init__(self, name: str, read: Callable[[], Iterable[str]]) -> None:
        self.columns = [name]
        self._read = read

    def cells(self, columns: Sequence[str]) -> Cells:
        return ((number, [cell] * len(columns)) for number, cell in enumerate(self._read(), start=1))


def open_lines(path: Path, _: Quoting | None = None) -> Table:
    """Open a text file as one column, a value per line; blank lines are missing values."""
    return ColumnTable(LINE_NAME, lambda: (line.rstrip("\r\n") for line in lines(path, newline="\n")))


def require_columns(columns: Sequence[str], limit: int = MAX_COLUMNS) -> None:
    if len(columns) > limit:
        raise InvalidError(f"The file has {len(columns):,} columns, more than {limit:,}: keep those you will choose.")
    for name, count in Counter(columns).most_common(1):
        if count > 1:
            raise InvalidError(f"{count} columns are called {quote(name)}: give every column a unique name.")
    if invalid_names := [name for name in columns if storable(name) != name]:
        raise InvalidError(
            f"The column name {quote(invalid_names[0])} is not Unicode text: give the column another name."
        )


class ValueKind(Enum):
    """The type of a column's values."""

    TEXT = auto()
    INTEGER = auto()
    REAL = auto()


def assign_roles(kinds: Mapping[str, ValueKind], counters: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """Return the columns that could be coordinates, and those that could be names or labels.

    Integers could be both. Columns in ``counters``, which number the rows, or named like labels are no coordinates.
    """
    whole_numbers = [column for column, kind in kinds.items() if kind is ValueKind.INTEGER]
    not_vectors = {column for column in whole_numbers if column in counters or column.lower() in NOT_VECTORS}
    numeric = [column for column, kind in kinds.items() if kind is not ValueKind.TEXT and column not in not_vectors]
    texts = [column for column, kind in kinds.items() if kind is ValueKind.TEXT]
    return numeric, (texts + whole_numbers)[:MAX_ANNOTATIONS]


class VectorColumns(NamedTuple):
    """The columns of a table that can be vectors, names or labels."""

    n: int
    parts: list[Part]
    numeric: list[str]
    annotations: list[Annotation]


class VectorTable(Table):
    """A table that may hold vectors: lists in a column, or a column of numbers per coordinate."""

    @abstractmethod
    def vector_columns(self) -> VectorColumns:
        """Read the table once and return its vector columns; raise InvalidError if there are none."""

    @abstractmethod
    def lists(self, column: str, step: int) -> Iterator[Block]:
        """Yield a column of lists in blocks [at most ``step``, d]."""

    @abstractmethod
    def numbers(self, columns: list[str], step: int) -> Iterator[Block]:
        """Yield columns of numbers in blocks [at most ``step``, columns]."""


class TableVectors(RowFile):
    """The vectors of a table with the names and labels of its rows."""

    def __init__(self, table: VectorTable) -> None:
        self._table = table
        self.n, self.parts, numeric, self.annotations = table.vector_columns()
        self.numeric_columns = [] if self.parts else numeric
        labels = {annotation.name for annotation in self.annotations}
        self.real_columns = [column for column in numeric if column not in labels] if self.parts else []

    def rows(self, vectors: str | list[str], step: int) -> Iterator[Block]:
        return self._table.lists(vectors, step) if isinstance(vectors, str) else self._table.numbers(vectors, step)

    def values(self, annotation: str) -> Iterator[str]:
        return (cell_text(cell) for _, (cell,) in self._table.cells([annotation]))

    def rows_of(self, annotations: Sequence[str]) -> Iterator[tuple[str, ...]]:
        return (tuple(map(cell_text, cells)) for _, cells in self._table.cells(annotations))


def blocks(rows: Iterable[Sequence[float] | Block], step: int) -> Iterator[Block]:
    iterator = iter(rows)
    while block := list(islice(iterator, step)):
        yield np.array(block, np.float64)
