"""Quotes in tab-separated files: whether they enclose cells, or are part of the text as in GLUE's files."""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum

CELL = re.compile(r'(?:"([^"]*+(?:""[^"]*+)*+)"|([^"\t]*+))(\t|\Z)')
MAX_RECORD_CHARACTERS = 16 * 2**20


class Quoting(StrEnum):
    """How the quotes of a tab-separated file are read."""

    TEXT = "text"
    """Every character counts, as GLUE and most scientific tools write it."""
    QUOTED = "quoted"
    """Quotes enclose cells and are doubled within them, as pandas and spreadsheets write it."""


Line = tuple[int, str]
"""The number of a line, from 1, and its text without the line end."""


def find_quoting(lines: Iterable[str]) -> Quoting | None:
    """Return how a file's quotes are meant, None where it has none.

    They enclose cells if every cell that holds a quote is a whole quoted field, and at least one of these needs its
    quotes: it holds a doubled quote, a tab or a line end. GLUE's files hold cells that begin and end with a genuine
    quote, so a pair of quotes around a cell alone proves nothing.
    """
    found, needed = False, False
    for _, record in quoted_records(lines):
        if '"' not in record:
            continue
        found = True
        if (cells := split_quoted(record)) is None:
            return Quoting.TEXT
        needed = needed or _needs_quotes(record, cells)
    if not found:
        return None
    return Quoting.QUOTED if needed else Quoting.TEXT


def quoted_records(lines: Iterable[str]) -> Iterator[Line]:
    """Join lines until the quotes of each record are balanced; an endless record is cut, and so is not balanced."""
    parts: list[str] = []
    first = size = 0
    inside = False
    for number, line in enumerate(lines, start=1):
        first = first if parts else number
        parts.append(line)
        size += len(line)
        inside ^= line.count('"') % 2 == 1
        if not inside or size > MAX_RECORD_CHARACTERS:
            yield first, "".join(parts).rstrip("\r\n")
            parts, size, inside = [], 0, False
    if parts:
        yield first, "".join(parts).rstrip("\r\n")


def split_quoted(record: str) -> list[str] | None:
    """Return the cells of a record without the quotes that enclose them; None where quotes stand in mid-cell."""
    if '"' not in record:
        return record.split("\t")
    cells: list[str] = []
    place = 0
    while match := CELL.match(record, place):
        quoted, plain, end = match.groups()
        cells.append(plain if quoted is None else quoted.replace('""', '"'))
        if not end:
            return cells
        place = match.end()
    return None


def _needs_quotes(record: str, cells: list[str]) -> bool:
    """Whether a quoted cell would be another without its quotes."""
    return '""' in record or any("\t" in cell or "\n" in cell for cell in cells)
