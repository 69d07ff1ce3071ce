"""Tables in csv and tsv: the first lines decide the column types, and all other lines have to agree."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from operator import itemgetter
from pathlib import Path

import numpy as np

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import quote
from isoscope.files.columns import NUMBER as PLAIN_NUMBER
from isoscope.files.contents import AnnotationStats, Block, Part
from isoscope.files.table import (
    Cells,
    Table,
    TableVectors,
    ValueKind,
    VectorColumns,
    VectorTable,
    assign_roles,
    blocks,
    require_columns,
)
from isoscope.files.text import SEPARATORS, Quoting, Record, detect_quotes, records, separator_advice

SAMPLE_LINES = 1000
MISSING = frozenset({"", "na", "n/a", "null", "none"})
NUMBER = re.compile(r"\s*[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf|infinity)\s*", re.IGNORECASE | re.ASCII)
WHOLE_NUMBER = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
ELISION = "..."


@dataclass(frozen=True)
class TableLayout:
    """Columns by their possible roles. ``has_header``: the first line names them, and is no row."""

    has_header: bool
    columns: list[str]
    numeric: list[str] = field(default_factory=list)
    annotations: list[str] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)


def open_csv(path: Path, _: Quoting | None = None) -> TableVectors:
    return TableVectors(DelimitedTable(partial(records, path, ",", Quoting.TEXT)))


def open_tsv(path: Path, quoting: Quoting | None = None) -> TableVectors:
    quoting = quoting or detect_quotes(path).reading or Quoting.TEXT
    return TableVectors(DelimitedTable(partial(records, path, "\t", quoting)))


def open_csv_table(path: Path, _: Quoting | None = None) -> Table:
    return _open_table(partial(records, path, ",", Quoting.TEXT))


def open_tsv_table(path: Path, quoting: Quoting | None = None) -> Table:
    detected = detect_quotes(path).reading
    quoting = detected and (quoting or detected)  # None in a file without quotes
    table = _open_table(partial(records, path, "\t", quoting or Quoting.TEXT))
    table.quoting = quoting
    return table


def _open_table(read: Callable[[], Iterator[Record]]) -> Table:
    header = next(read(), None)
    if header is None:
        raise InvalidError("The file holds blank lines only: expected a line of column names and a line for each row.")
    line, cells = header
    names = [cell.strip() for cell in cells]
    if number := next((name for name in names if PLAIN_NUMBER.fullmatch(name)), None):
        raise InvalidError(
            f"Line {line} should name the columns, but holds the number {number}: put a line of names, such as "
            "sentence and label, above the rows."
        )
    if advice := separator_advice(names, SEPARATORS):
        raise InvalidError(f"Line {line} names a single column, {quote(names[0])}. {advice}")
    columns = [name or f"column {i}" for i, name in enumerate(names, start=1)]
    require_columns(columns)
    return DelimitedTable(read, TableLayout(True, columns))


class DelimitedTable(VectorTable):
    """A table of lines, which ``read`` reads from the first. Without a layout, the first lines decide it."""

    def __init__(self, read: Callable[[], Iterator[Record]], layout: TableLayout | None = None) -> None:
        layout = layout or find_layout(list(islice(read(), SAMPLE_LINES + 1)))
        self._read, self._layout, self.columns = read, layout, layout.columns
        self._positions = {column: i for i, column in enumerate(layout.columns)}

    def vector_columns(self) -> VectorColumns:
        layout = self._layout
        stats = AnnotationStats(layout.annotations)
        widths: dict[str, int] = {}
        for line, cells in self.cells([*layout.annotations, *layout.lists]):
            stats.add(cells)
            for column, cell in zip(layout.lists, cells[len(layout.annotations) :], strict=True):
                values = parse_list(cell, line, column)
                if len(values) != (d := widths.setdefault(column, len(values))):
                    raise InvalidError(
                        f"Line {line} holds a list of {len(values):,} numbers in the column {quote(column)}, where the "
                        f"lines before hold {d:,}: give every line as many."
                    )
        parts = [Part(name=name, n=stats.n, d=d, dtype="float64") for name, d in widths.items()]
        return VectorColumns(stats.n, parts, layout.numeric, stats.annotations())

    def cells(self, columns: Sequence[str]) -> Cells:
        positions = [self._positions[column] for column in columns]
        rows = islice(self._read(), self._layout.has_header, None)
        return ((line, [cells[i] for i in positions]) for line, cells in rows)

    def lists(self, column: str, step: int) -> Iterator[Block]:
        return blocks((parse_list(cell, line, column) for line, (cell,) in self.cells([column])), step)

    def numbers(self, columns: list[str], step: int) -> Iterator[Block]:
        return blocks(self._numbers(columns), step)

    def _numbers(self, columns: list[str]) -> Iterator[list[float]]:
        positions = [self._positions[column] for column in columns]
        first, last = positions[0], positions[-1]
        is_contiguous = positions == list(range(first, last + 1))
        pick = itemgetter(slice(first, last + 1)) if is_contiguous else itemgetter(*positions)
        for line, cells in islice(self._read(), self._layout.has_header, None):
            try:
                yield list(map(float, pick(cells)))
            except ValueError:
                yield [_parse_number(cells[i], line, i, self.columns[i]) for i in positions]


def _parse_number(cell: str, line: int, i: int, column: str) -> float:
    try:
        return float(cell)
    except ValueError:
        if cell.strip().lower() in MISSING:
            return np.nan
        raise InvalidError(
            f"Line {line}, column {i + 1} ({column[:40]!r}) holds {cell[:40]!r} where a number belongs: write a number "
            "with a decimal point there, or leave the cell empty."
        ) from None


def find_layout(sample: list[Record]) -> TableLayout:
    if not sample:
        raise InvalidError("The file holds blank lines only: expected a line for each vector.")
    (line, first_cells), *_ = sample
    all_rows = [cells for _, cells in sample]
    # The first line names the columns if it has text and no number, or if its numbers count the columns (0, 1, 2, ...
    # as pandas writes them) above values that are not whole.
    first_numbers = [cell for cell in first_cells if NUMBER.fullmatch(cell)]
    if first_numbers:
        counters = [[str(i + start) for i in range(len(first_numbers))] for start in (0, 1)]
        has_header = first_numbers in counters and any(
            NUMBER.fullmatch(cell) and not WHOLE_NUMBER.fullmatch(cell) for row in all_rows[1:] for cell in row
        )
    else:
        has_header = any(cell.strip() for cell in first_cells)
    rows = all_rows[has_header:]
    if not rows:
        raise InvalidError("The file has a header but no rows, so there is nothing to measure.")
    header = [name.strip() for name in first_cells] if has_header else [""] * len(first_cells)
    columns = [name or f"column {i}" for i, name in enumerate(header, start=1)]
    column, count = Counter(columns).most_common(1)[0]
    if count > 1:
        raise InvalidError(f"Line {line} names {count} columns {column[:40]!r}: give every column a unique name.")
    kinds = {}
    lists = []
    for i, column in enumerate(columns):
        cells = [row[i] for row in rows]
        filled = [cell for cell in cells if cell.strip()]
        if sum(map(is_list, filled)) * 2 > len(filled):
            lists.append(column)
            continue
        number_kind = ValueKind.INTEGER if all(WHOLE_NUMBER.fullmatch(cell) for cell in cells) else ValueKind.REAL
        # If most cells are numbers, the others are mistakes.
        is_numeric = sum(NUMBER.fullmatch(cell) is not None for cell in filled) * 2 > len(filled)
        kinds[column] = number_kind if is_numeric else ValueKind.TEXT
    unnamed = {column for column, name in zip(columns, header, strict=True) if has_header and not name}
    numeric, annotations = assign_roles(kinds, unnamed)
    if not numeric and not lists:
        example = f"The first line that is not a header begins with {rows[0][0][:40]!r}."
        raise InvalidError(
            "No column holds numbers, so there are no vectors: expected a column of numbers for each dimension. "
            f"{separator_advice(rows[0], f'{SEPARATORS}, ') or example}"
        )
    return TableLayout(has_header, columns, numeric, annotations, lists)


def is_list(cell: str) -> bool:
    """Return whether a cell looks like a list of numbers: [0.5, -1.25], or [ 0.5 -1.25] as NumPy prints it."""
    text = cell.strip()
    return text.startswith("[") and text.endswith("]") and len(text) > len("[]") and not text.startswith("[[")


def parse_list(cell: str, line: int, column: str) -> list[float]:
    """Return the numbers of a cell; raise InvalidError if it holds no list, or one that printing shortened."""
    text = cell.strip()
    if not is_list(text):
        raise InvalidError(
            f"Line {line} holds {quote(text)} in the column {quote(column)}, where other lines hold a list of numbers: "
            "give every line a list such as [0.5, -1.25]."
        )
    values = text[1:-1].replace(",", " ").split()
    if ELISION in values:
        raise InvalidError(
            f"Line {line} holds a shortened list in the column {quote(column)} (with {ELISION!r}): NumPy prints long "
            "arrays so, and their numbers are lost. Write lists instead: "
            f'df["{column[:40]}"] = df["{column[:40]}"].map(list), or save the array as .npy.'
        )
    try:
        return list(map(float, values))
    except ValueError:
        unreadable = next(value for value in values if not NUMBER.fullmatch(value))
        raise InvalidError(
            f"Line {line} holds {quote(unreadable)} in a list of the column {quote(column)}, where a number belongs."
        ) from None
