"""Vectors in csv and tsv: a row a line, columns of numbers or of lists beside columns of names and labels."""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from operator import itemgetter
from pathlib import Path

import numpy as np

from app.formats.contents import Block, Part
from app.formats.detect import Format
from app.formats.layout import find_layout
from app.formats.list_cells import parse_list, require_width
from app.formats.quoting import Quoting
from app.formats.row_file import RowFile
from app.formats.tally import Tally, cell_text
from app.formats.text import Record, records, tsv_quoting
from isoscope.core.errors import InvalidError

SAMPLE_LINES = 1000
"""What a column is, is told by this many lines; all others have to agree."""
MISSING = frozenset({"", "na", "n/a", "null", "none"})


class DelimitedFile(RowFile):
    """A csv or tsv file, as ``app.formats.contents.Contents``. Each line is read once here and once by each matrix."""

    def __init__(self, path: Path, file_format: Format, quoting: Quoting | None = None) -> None:
        if quoting is None and file_format is Format.TSV:
            quoting = tsv_quoting(path)
        self._records_of = partial(records, path, file_format, quoting or Quoting.TEXT)
        self._layout = find_layout(list(islice(self._records_of(), SAMPLE_LINES + 1)))
        self._place = {column: i for i, column in enumerate(self._layout.columns)}
        self.numeric_columns = [] if self._layout.lists else self._layout.numeric
        widths: dict[str, int] = {}
        tally = Tally({column: self._place[column] for column in self._layout.annotations})
        for line, cells in self._records():
            tally.add(cells)
            for column in self._layout.lists:
                values = parse_list(cells[self._place[column]], line, column)
                require_width(values, widths.setdefault(column, len(values)), line, column)
        self.n = tally.n
        self.parts = [Part(name=name, n=self.n, d=d, dtype="float64") for name, d in widths.items()]
        self.annotations = tally.annotations()

    def rows(self, vectors: str | list[str], step: int) -> Iterator[Block]:
        """Yield the lists of a column, or the chosen columns, in blocks [at most ``step``, columns]."""
        numbers = self._lists(vectors) if isinstance(vectors, str) else self._numbers(vectors)
        while block := list(islice(numbers, step)):
            yield np.array(block, np.float64)

    def values(self, annotation: str) -> Iterator[str]:
        """Return the cells of a column."""
        i = self._place[annotation]
        return (cell_text(cells[i]) for _, cells in self._records())

    def _records(self) -> Iterator[Record]:
        return islice(self._records_of(), self._layout.has_header, None)

    def _lists(self, column: str) -> Iterator[list[float]]:
        """Yield the lists of a column, row after row."""
        place = self._place[column]
        return (parse_list(cells[place], line, column) for line, cells in self._records())

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
