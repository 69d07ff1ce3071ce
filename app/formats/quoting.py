"""Quotes in tab-separated files: whether they enclose cells, or are part of the text as in GLUE's files."""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, StrEnum

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


Readings = Mapping[str, Quoting]
"""How the quotes of several files are read, by what each file is; without those that hold no quotes."""


class Quotes(Enum):
    """What the quotes of a tab-separated file say of how they are meant."""

    NONE = "none"
    TEXT = "text"
    """A cell holds a quote and is not a whole quoted field."""
    QUOTED = "quoted"
    """Every cell that holds a quote is a whole quoted field, and at least one needs its quotes."""
    PAIRS = "pairs"
    """Every cell that holds a quote is a whole quoted field, and none needs its quotes."""

    @property
    def reading(self) -> Quoting | None:
        """How they are read where nothing else tells: pairs are text, since GLUE's files hold genuine ones."""
        if self is Quotes.NONE:
            return None
        return Quoting.QUOTED if self is Quotes.QUOTED else Quoting.TEXT


def settle_readings(found: Mapping[str, Quotes], chosen: Quoting | None = None) -> dict[str, Quoting]:
    """Return how the quotes of each file of a data set are read: as chosen, else as they are meant.

    Pairs that say nothing by themselves are read as in a sibling file whose quotes enclose cells.
    """
    pairs = Quoting.QUOTED if Quotes.QUOTED in found.values() else Quoting.TEXT
    meant = {name: pairs if quotes is Quotes.PAIRS else quotes.reading for name, quotes in found.items()}
    return {name: chosen or reading for name, reading in meant.items() if reading is not None}


def look_at_quotes(lines: Iterable[str]) -> Quotes:
    """Return what the quotes of a file say; a cell needs its own if it holds a doubled quote, a tab or a line end."""
    found, needed = False, False
    for _, record in quoted_records(lines):
        if '"' not in record:
            continue
        found = True
        if (cells := split_quoted(record)) is None:
            return Quotes.TEXT
        needed = needed or _needs_quotes(record, cells)
    if not found:
        return Quotes.NONE
    return Quotes.QUOTED if needed else Quotes.PAIRS


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
