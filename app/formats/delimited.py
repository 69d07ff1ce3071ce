"""Vectors in csv and tsv: a row a line, columns of numbers beside columns of names and labels."""

from collections.abc import Iterator
from itertools import islice
from operator import itemgetter
from pathlib import Path

import numpy as np

from app.errors import InvalidError
from app.formats.contents import MAX_DISTINCT, Annotation, Block, Part, annotation_of
from app.formats.detect import Format
from app.formats.layout import find_layout
from app.formats.text import Record, records

SAMPLE_LINES = 1000
"""What a column is, is told by this many lines; all others have to agree."""
MAX_COLUMN_BLOCK_BYTES = 64 * 2**20
MISSING = frozenset({"", "na", "n/a", "null", "none"})


class DelimitedFile:
    """A csv or tsv file, as ``app.formats.contents.Contents``. Each line is read once here and once by each matrix."""

    def __init__(self, path: Path, file_format: Format) -> None:
        self._path = path
        self._format = file_format
        self._layout = find_layout(list(islice(records(path, file_format), SAMPLE_LINES + 1)))
        self._place = {column: i for i, column in enumerate(self._layout.columns)}
        self.parts: list[Part] = []
        self.numeric_columns = self._layout.numeric
        self.annotations = self._read_annotations()

    def shape(self, vectors: str | list[str]) -> tuple[int, int]:
        """Rows of the file and the number of chosen columns."""
        return self._n, len(vectors)

    def dtype(self, vectors: str | list[str]) -> str:
        """The type that the text is read as."""
        return "float64"

    def blocks(self, vectors: str | list[str], rows: int, *, transpose: bool) -> Iterator[Block]:
        """Return the chosen columns, or their transpose, from top to bottom."""
        return self._columns(list(vectors), rows) if transpose else self._rows(list(vectors), rows)

    def values(self, annotation: str) -> Iterator[str]:
        """Return the cells of a column."""
        i = self._place[annotation]
        return (cells[i].strip() for _, cells in self._records())

    def _records(self) -> Iterator[Record]:
        return islice(records(self._path, self._format), self._layout.has_header, None)

    def _read_annotations(self) -> list[Annotation]:
        """Read the whole file: count its rows, and the distinct values of what could be names or labels."""
        distinct: dict[int, dict[str, None]] = {self._place[c]: {} for c in self._layout.annotations}
        open_ = list(distinct.items())
        self._n = 0
        for _, cells in self._records():
            self._n += 1
            for i, values in open_:
                values[cells[i].strip()] = None
            if self._n % SAMPLE_LINES == 0:
                open_ = [(i, values) for i, values in open_ if len(values) <= MAX_DISTINCT]
        return [annotation_of(self._layout.columns[i], self._n, values) for i, values in distinct.items()]

    def _rows(self, columns: list[str], step: int) -> Iterator[Block]:
        """Yield blocks [at most ``step``, columns]."""
        numbers = self._numbers(columns)
        while block := list(islice(numbers, step)):
            yield np.array(block, np.float64)

    def _columns(self, columns: list[str], step: int) -> Iterator[Block]:
        """Yield the transpose in blocks [at most ``step``, rows], reading the file once for each."""
        step = max(1, min(step, MAX_COLUMN_BLOCK_BYTES // (8 * self._n)))
        for start in range(0, len(columns), step):
            some = columns[start : start + step]
            block = np.empty((self._n, len(some)))
            for i, row in enumerate(self._numbers(some)):
                block[i] = row
            yield block.T

    def _numbers(self, columns: list[str]) -> Iterator[list[float]]:
        """Yield the cells of some columns as numbers, row after row."""
        places = [self._place[column] for column in columns]
        first, last = places[0], places[-1]
        side_by_side = places == list(range(first, last + 1))
        chosen = itemgetter(slice(first, last + 1)) if side_by_side else itemgetter(*places)
        for line, cells in self._records():
            try:
                yield list(map(float, chosen(cells)))
            except ValueError:
                yield [_number(cells[i], line, i, self._layout.columns[i]) for i in places]


def _number(cell: str, line: int, i: int, column: str) -> float:
    """Return a cell as a number, NaN where it is missing."""
    try:
        return float(cell)
    except ValueError:
        if cell.strip().lower() in MISSING:
            return np.nan
        raise InvalidError(
            f"Line {line}, column {i + 1} ({column[:40]!r}) holds {cell[:40]!r} where a number belongs: write a number "
            "with a decimal point there, or leave the cell empty."
        ) from None
