"""A file of a data set, whatever its format: named columns, and rows of scalars that can be read again and again."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from app.formats.detect import Format
from app.formats.labels import NUMBER
from app.formats.quoting import Quoting
from app.formats.text import Record, lines, records, tsv_quoting
from app.formats.wording import shown, storable
from isoscope.core.errors import InvalidError

Scalar = str | int | float

MAX_COLUMNS = 1000
LINE_NAME = "line"


@dataclass(frozen=True)
class TableFile:
    """The columns that hold text and numbers, and a function that starts reading the rows."""

    columns: list[str]
    rows: Callable[[], Iterator[Sequence[Scalar | None]]]
    """One value for each column, None where it is missing."""
    quoting: Quoting | None = None
    """How the quotes of a tab-separated file are read; None where there are none, and for other formats."""


def read_text_table(path: Path, file_format: Format, quoting: Quoting | None = None) -> TableFile:
    """Open a csv or tsv file, whose first line has to name the columns; quotes as chosen, else as they are meant."""
    found = tsv_quoting(path) if file_format is Format.TSV else None
    quoting = found and (quoting or found)
    read = partial(records, path, file_format, quoting or Quoting.TEXT)
    first = next(read(), None)
    if first is None:
        raise InvalidError("The file holds blank lines only: expected a line of column names and a line for each row.")
    line, cells = first
    names = [cell.strip() for cell in cells]
    if number := next((name for name in names if NUMBER.fullmatch(name)), None):
        raise InvalidError(
            f"Line {line} should name the columns, but holds the number {number}: put a line of names, such as "
            "sentence and label, above the rows."
        )
    columns = [name or f"column {i}" for i, name in enumerate(names, start=1)]
    require_columns(columns)
    return TableFile(columns, partial(_text_rows, read), quoting)


def _text_rows(read: Callable[[], Iterator[Record]]) -> Iterator[list[str | None]]:
    for _, cells in islice(read(), 1, None):
        yield [cell if cell.strip() else None for cell in cells]


def read_lines(path: Path) -> TableFile:
    """Open a text file, each line of which is the value of its row in one column; blank, it is missing."""
    return TableFile([LINE_NAME], partial(_lines, path))


def _lines(path: Path) -> Iterator[tuple[str | None]]:
    return ((line.rstrip("\r\n") if line.strip() else None,) for line in lines(path, newline="\n"))


def require_columns(columns: Sequence[str], limit: int = MAX_COLUMNS) -> None:
    """Refuse more columns than can be chosen from, and two of one name."""
    if len(columns) > limit:
        raise InvalidError(f"The file has {len(columns):,} columns, more than {limit:,}: keep those you will choose.")
    for name, count in Counter(columns).most_common(1):
        if count > 1:
            raise InvalidError(f"{count} columns are called {shown(name)}: give every column a name of its own.")
    if unfit := [name for name in columns if storable(name) != name]:
        raise InvalidError(f"The column name {shown(unfit[0])} is not Unicode text: give the column another name.")
