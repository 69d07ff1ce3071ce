"""What the columns of a table of text are: told by its first lines."""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from app.formats.list_cells import is_list
from app.formats.text import Record
from isoscope.core.errors import InvalidError

MAX_ANNOTATIONS = 64
"""More columns than this are not offered as names or labels, text before numbers."""

NUMBER = re.compile(r"\s*[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf|infinity)\s*", re.IGNORECASE | re.ASCII)
WHOLE = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
NOT_VECTORS = frozenset({"class", "cluster", "group", "id", "idx", "index", "label", "label_id", "labels", "target"})
"""Names under which whole numbers are labels or a count of the rows, not coordinates."""


class Kind(Enum):
    """What the values of a column are."""

    TEXT = auto()
    WHOLE = auto()
    REAL = auto()


@dataclass(frozen=True)
class Layout:
    """Which columns there are and what each can serve as; the first line is a header or the first row."""

    has_header: bool
    columns: list[str]
    numeric: list[str]
    annotations: list[str]
    lists: list[str]
    """Columns whose cells are lists of numbers."""


def find_layout(sample: list[Record]) -> Layout:
    """Return the layout of a table that begins with these lines."""
    if not sample:
        raise InvalidError("The file holds blank lines only: expected a line for each vector.")
    lines = [cells for _, cells in sample]
    has_header = _is_header(lines)
    rows = lines[has_header:]
    if not rows:
        raise InvalidError("The file has a header but no rows, so there is nothing to measure.")
    header = [name.strip() for name in lines[0]] if has_header else [""] * len(lines[0])
    columns = [name or f"column {i}" for i, name in enumerate(header, start=1)]
    _require_unique(columns, sample[0][0])

    kinds = {}
    lists = []
    for i, column in enumerate(columns):
        cells = [row[i] for row in rows]
        if _are_lists(cells):
            lists.append(column)
            continue
        is_whole = all(WHOLE.fullmatch(cell) for cell in cells)
        kinds[column] = Kind.TEXT if not _is_numeric(cells) else Kind.WHOLE if is_whole else Kind.REAL
    unnamed = {column for column, name in zip(columns, header, strict=True) if has_header and not name}
    numeric, annotations = roles(kinds, unnamed)
    if not numeric and not lists:
        raise InvalidError(_why_no_numbers(lines[-1]))
    return Layout(has_header, columns, numeric, annotations, lists)


def roles(kinds: Mapping[str, Kind], counted: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """Return the columns that could be coordinates, and those that could be names or labels.

    Whole numbers could be both, but for those ``counted`` rows and those called so.
    """
    whole = [column for column, kind in kinds.items() if kind is Kind.WHOLE]
    not_vectors = {column for column in whole if column in counted or column.lower() in NOT_VECTORS}
    numeric = [column for column, kind in kinds.items() if kind is not Kind.TEXT and column not in not_vectors]
    texts = [column for column, kind in kinds.items() if kind is Kind.TEXT]
    return numeric, (texts + whole)[:MAX_ANNOTATIONS]


def _is_header(lines: list[list[str]]) -> bool:
    """Whether the first line names the columns.

    It does if it has text and no number, and if its numbers count the columns (0, 1, 2, ... as pandas writes them)
    above values that are not whole.
    """
    first, *rows = lines
    numbers = [cell for cell in first if NUMBER.fullmatch(cell)]
    if not numbers:
        return any(cell.strip() for cell in first)
    counted = numbers in ([str(i + start) for i in range(len(numbers))] for start in (0, 1))
    return counted and any(NUMBER.fullmatch(cell) and not WHOLE.fullmatch(cell) for row in rows for cell in row)


def _are_lists(cells: list[str]) -> bool:
    """Whether most of the cells that are not empty are lists of numbers, so that the others are mistakes."""
    filled = [cell for cell in cells if cell.strip()]
    return sum(map(is_list, filled)) * 2 > len(filled)


def _is_numeric(cells: list[str]) -> bool:
    """Whether most of the cells that are not empty are numbers, so that the others are mistakes."""
    filled = [cell for cell in cells if cell.strip()]
    return sum(NUMBER.fullmatch(cell) is not None for cell in filled) * 2 > len(filled)


def _require_unique(columns: list[str], line: int) -> None:
    column, count = Counter(columns).most_common(1)[0]
    if count > 1:
        raise InvalidError(f"Line {line} names {count} columns {column[:40]!r}: give every column a name of its own.")


def _why_no_numbers(cells: list[str]) -> str:
    message = "No column holds numbers, so there are no vectors: expected a column of numbers for each dimension."
    if len(cells) == 1 and (separator := next((s for s in ("\t", ";", ",", " ") if s in cells[0]), None)):
        return (
            f"{message} The cells seem to be separated by {separator!r}: name the file .tsv if they are separated by "
            "tabs, else separate them by commas and name it .csv."
        )
    return f"{message} The first line that is not a header begins with {cells[0][:40]!r}."
