"""Tables: named columns, and lines or rows of values that can be read again and again.

A data set reads scalars from one, names and labels are columns of one, and vectors are lists or numbers in one.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import shown, storable
from isoscope.files.contents import Block, Part, RowFile, cell_text
from isoscope.files.span import span_text
from isoscope.files.text import Quoting, lines

Scalar = str | int | float
Cells = Iterator[tuple[int, Sequence[Any]]]
"""The number of each line or row, from 1, and its values."""

MAX_COLUMNS = 1000
MAX_ANNOTATIONS = 64
"""More columns than this are not offered as names or labels, text before numbers."""
LINE_NAME = "line"
NOT_VECTORS = frozenset({"class", "cluster", "group", "id", "idx", "index", "label", "label_id", "labels", "target"})
"""Names under which whole numbers are labels or a count of the rows, not coordinates."""


@dataclass(frozen=True)
class Table:
    """The columns that hold text and numbers, and a function that starts reading the rows."""

    columns: list[str]
    rows: Callable[[], Iterator[Sequence[Scalar | None]]]
    """One value for each column, None where it is missing."""
    quoting: Quoting | None = None
    """How the quotes of a tab-separated file are read; None where there are none, and for other formats."""


def open_lines(path: Path, _: Quoting | None = None) -> Table:
    """Open a text file, each line of which is the value of its row in one column; blank, it is missing."""

    def rows() -> Iterator[tuple[str | None]]:
        return ((line.rstrip("\r\n") if line.strip() else None,) for line in lines(path, newline="\n"))

    return Table([LINE_NAME], rows)


def scalars(cells: Cells, columns: Sequence[str], place: str) -> Iterator[list[Scalar | None]]:
    """Yield rows of scalars; ``place`` is "Line {}" or "Row {:,}" for the numbers of ``cells``."""
    for number, values in cells:
        yield [_scalar(value, name, place, number) for name, value in zip(columns, values, strict=True)]


def _scalar(value: Any, column: str, place: str, number: int) -> Scalar | None:
    if isinstance(value, str):
        return storable(value) if value.strip() else None
    if isinstance(value, dict):
        return span_text(value, column, place.format(number))
    scalar: Scalar | None = None if value is None or value != value else value  # noqa: PLR0124 -- NaN is missing
    return scalar


def require_columns(columns: Sequence[str], limit: int = MAX_COLUMNS) -> None:
    """Refuse more columns than can be chosen from, and two of one name."""
    if len(columns) > limit:
        raise InvalidError(f"The file has {len(columns):,} columns, more than {limit:,}: keep those you will choose.")
    for name, count in Counter(columns).most_common(1):
        if count > 1:
            raise InvalidError(f"{count} columns are called {shown(name)}: give every column a unique name.")
    if unfit := [name for name in columns if storable(name) != name]:
        raise InvalidError(f"The column name {shown(unfit[0])} is not Unicode text: give the column another name.")


class Kind(Enum):
    """What the values of a column are."""

    TEXT = auto()
    WHOLE = auto()
    REAL = auto()


def roles(kinds: Mapping[str, Kind], counted: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """Return the columns that could be coordinates, and those that could be names or labels.

    Whole numbers could be both, but for those ``counted`` rows and those called so.
    """
    whole = [column for column, kind in kinds.items() if kind is Kind.WHOLE]
    not_vectors = {column for column in whole if column in counted or column.lower() in NOT_VECTORS}
    numeric = [column for column, kind in kinds.items() if kind is not Kind.TEXT and column not in not_vectors]
    texts = [column for column, kind in kinds.items() if kind is Kind.TEXT]
    return numeric, (texts + whole)[:MAX_ANNOTATIONS]


class TableVectors(RowFile):
    """Vectors in a table: lists in the cells of a column, or a column of numbers for each coordinate."""

    @abstractmethod
    def cells(self, columns: list[str]) -> Cells:
        """Yield the values of some columns."""

    @abstractmethod
    def lists(self, column: str, step: int) -> Iterator[Block]:
        """Yield the lists of a column in blocks [at most ``step``, d]."""

    @abstractmethod
    def numbers(self, columns: list[str], step: int) -> Iterator[Block]:
        """Yield the numbers of some columns in blocks [at most ``step``, columns], NaN where one is missing."""

    def rows(self, vectors: str | list[str], step: int) -> Iterator[Block]:
        """Yield the lists of a column, or the numbers of some columns."""
        return self.lists(vectors, step) if isinstance(vectors, str) else self.numbers(vectors, step)

    def values(self, annotation: str) -> Iterator[str]:
        """Return the values of a column as text."""
        return (cell_text(value) for _, (value,) in self.cells([annotation]))

    def rows_of(self, annotations: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Return the values of some columns as text, in one pass over the file."""
        return (tuple(map(cell_text, values)) for _, values in self.cells(list(annotations)))

    def offer(self, parts: list[Part], kinds: Mapping[str, Kind], counted: Collection[str], why_none: str) -> list[str]:
        """Offer the lists, or else the columns of numbers; return those that could be names or labels.

        Raises:
            InvalidError: with ``why_none``, if there are neither.

        """
        numeric, annotations = roles(kinds, counted)
        if not parts and not numeric:
            raise InvalidError(why_none)
        self.parts, self.numeric_columns = parts, [] if parts else numeric
        self.real_columns = [one for one in numeric if one not in annotations] if parts else []
        return annotations


def blocks(rows: Iterable[Sequence[float] | Block], step: int) -> Iterator[Block]:
    """Yield rows of numbers in blocks [at most ``step``, d]."""
    remaining = iter(rows)
    while block := list(islice(remaining, step)):
        yield np.array(block, np.float64)
