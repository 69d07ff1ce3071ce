"""Lines and cells of text files, streamed and capped; how quotes in tab-separated files are read."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, StrEnum
from functools import partial
from itertools import chain
from pathlib import Path

from isoscope.core.errors import InvalidError
from isoscope.files.compressed import open_unpacked

CELL = re.compile(r'(?:"([^"]*+(?:""[^"]*+)*+)"|([^"\t]*+))(\t|\Z)')
MAX_RECORD_CHARACTERS = 16 * 2**20
MAX_LINE_CHARACTERS = 16 * 2**20
MAX_COLUMNS = 65_536
# Separators in files that are named .csv or .tsv by mistake.
SEPARATORS = "\t;|"
# Bytes per read when searching a file for quotes, before its lines are parsed.
QUOTE_BLOCK_BYTES = 2**20


class Quoting(StrEnum):
    """How quotes of a tab-separated file are read."""

    # Every character counts, as GLUE and most scientific tools write it.
    TEXT = "text"
    # Quotes enclose cells and are doubled within them, as pandas and spreadsheets write it.
    QUOTED = "quoted"


# The number of a line, from 1, and its text without the line end.
Line = tuple[int, str]


# Quoting by split, without the files that hold no quotes.
QuotingBySplit = Mapping[str, Quoting]


class Quotes(Enum):
    """Evidence in a tab-separated file on how its quotes are meant."""

    NONE = "none"
    # A cell holds a quote and is not a whole quoted field.
    TEXT = "text"
    # Every cell with a quote is a whole quoted field, and at least one needs its quotes.
    QUOTED = "quoted"
    # Every cell with a quote is a whole quoted field, and none needs its quotes.
    PAIRS = "pairs"

    @property
    def reading(self) -> Quoting | None:
        """Return the likeliest quoting, None without quotes. In GLUE's files, quotes in pairs belong to the text."""
        if self is Quotes.NONE:
            return None
        return Quoting.QUOTED if self is Quotes.QUOTED else Quoting.TEXT


def settle_quoting(quotes_by_file: Mapping[str, Quotes], chosen: Quoting | None = None) -> dict[str, Quoting]:
    """Return the quoting of each file of a data set: as chosen, else as detected.

    Ambiguous files are read like a file of the same data set whose quotes enclose cells, if there is one.
    """
    pairs_quoting = Quoting.QUOTED if Quotes.QUOTED in quotes_by_file.values() else Quoting.TEXT
    detected = {
        name: pairs_quoting if quotes is Quotes.PAIRS else quotes.reading for name, quotes in quotes_by_file.items()
    }
    return {name: chosen or quoting for name, quoting in detected.items() if quoting is not None}


def quoted_records(lines: Iterable[str]) -> Iterator[Line]:
    """Join lines until the quotes of each record are balanced, or it is longer than ``MAX_RECORD_CHARACTERS``."""
    parts: list[str] = []
    first_number = size = 0
    in_quotes = False
    for number, line in enumerate(lines, start=1):
        first_number = first_number if parts else number
        parts.append(line)
        size += len(line)
        in_quotes ^= line.count('"') % 2 == 1
        if not in_quotes or size > MAX_RECORD_CHARACTERS:
            yield first_number, "".join(parts).rstrip("\r\n")
            parts, size, in_quotes = [], 0, False
    if parts:
        yield first_number, "".join(parts).rstrip("\r\n")


def split_quoted(record: str) -> list[str] | None:
    """Return the cells of a record without enclosing quotes; None if a quote is inside a cell."""
    if '"' not in record:
        return record.split("\t")
    cells: list[str] = []
    position = 0
    while match := CELL.match(record, position):
        quoted, plain, end = match.groups()
        cells.append(plain if quoted is None else quoted.replace('""', '"'))
        if not end:
            return cells
        position = match.end()
    return None


# The number of the line, from 1, and its cells.
Record = tuple[int, list[str]]


def lines(path: Path, newline: str) -> Iterator[str]:
    """Yield the lines of a UTF-8 text, gzipped or not, with or without a byte order mark."""
    number = 0
    with open_unpacked(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline=newline) as stream:
        try:
            while line := stream.readline(MAX_LINE_CHARACTERS):
                number += 1
                if len(line) == MAX_LINE_CHARACTERS:
                    raise InvalidError(
                        f"Line {number} has {MAX_LINE_CHARACTERS:,} characters or more: a table of text has "
                        "shorter lines. Check that the file is what its name says."
                    )
                if "\0" in line:
                    raise InvalidError(
                        f"Line {number} holds a NUL byte, so this is not a text file: check that the file is what "
                        "its name says, and that it was not cut off while being copied."
                    )
                yield line
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            # All lines so far were complete: add the line ends between the last of them and the invalid byte.
            number += 1 + error.object.count(b"\n", 0, error.start)
            raise InvalidError(
                f"Expected text in UTF-8, found the byte 0x{byte:02x} in line {number}: save the file as UTF-8, or "
                "convert it with `iconv -f latin1 -t utf-8 old > new`."
            ) from None


def detect_quotes(path: Path) -> Quotes:
    with open_unpacked(path) as raw:
        if not any(b'"' in block for block in iter(partial(raw.read, QUOTE_BLOCK_BYTES), b"")):
            return Quotes.NONE
    # A cell needs its quotes if it holds a doubled quote, a tab or a line end.
    has_quotes, needs_quotes = False, False
    for _, record in quoted_records(lines(path, newline="\n")):
        if '"' not in record:
            continue
        has_quotes = True
        if (cells := split_quoted(record)) is None:
            return Quotes.TEXT
        needs_quotes = needs_quotes or ('""' in record or any("\t" in cell or "\n" in cell for cell in cells))
    if not has_quotes:
        return Quotes.NONE
    return Quotes.QUOTED if needs_quotes else Quotes.PAIRS


def records(path: Path, separator: str, quoting: Quoting) -> Iterator[Record]:
    """Yield the cells of each non-blank line, as many as in the first; ``quoting`` applies to tabs only."""
    if separator == ",":
        lines_of_cells = _csv_records(path)
    elif quoting is Quoting.QUOTED:
        lines_of_cells = _quoted_records(path)
    else:
        numbered = enumerate(lines(path, newline="\n"), start=1)
        lines_of_cells = ((n, text.split("\t")) for n, line in numbered if (text := line.rstrip("\r\n")))
    first_record: Record | None = None
    for number, cells in lines_of_cells:
        if first_record is None:
            first_record = number, cells
            if len(cells) > MAX_COLUMNS:
                raise InvalidError(
                    f"Line {number} has {len(cells):,} columns, more than {MAX_COLUMNS:,}: store the numbers as .npy."
                )
        elif len(cells) != len(first_record[1]):
            advice = separator_advice(first_record[1], SEPARATORS) or "Look for a stray separator or an unclosed quote."
            raise InvalidError(
                f"Line {number} has another number of columns ({len(cells):,}) than line {first_record[0]} "
                f"({len(first_record[1]):,}): every line needs the same. {advice}"
            )
        yield number, cells


def separator_advice(cells: Sequence[str], separators: str) -> str | None:
    """Return advice about a single-cell line that holds another separator, else None."""
    separator = next((candidate for candidate in separators if candidate in cells[0]), None)
    if len(cells) > 1 or separator is None:
        return None
    default_advice = "separate them by commas, write numbers with a point (0.5), and name the file .csv"
    advice = {"\t": "name the file .tsv", ",": "name the file .csv"}.get(separator, default_advice)
    return f"The cells seem to be separated by {separator!r}: {advice}."


def _quoted_records(path: Path) -> Iterator[Record]:
    # Only \n ends a line: texts do hold lone carriage returns.
    for number, record in quoted_records(lines(path, newline="\n")):
        if not record:
            continue
        if (cells := split_quoted(record)) is None:
            raise InvalidError(
                f"Line {number} holds a quote inside a cell that is not quoted, or a quoted cell without an end: "
                "read the quotes of this file as text, or double the quotes inside quoted cells.",
                "quoting",
            )
        yield number, cells


def _csv_records(path: Path) -> Iterator[Record]:
    stream = lines(path, newline="")
    number = 0
    for line in stream:
        if '"' not in line:  # true of most numeric tables, and many times faster
            number += 1
            cells = line.rstrip("\r\n").split(",")
        else:
            reader = csv.reader(chain([line], stream), strict=True)
            try:
                cells = next(reader)
            except csv.Error as error:
                raise InvalidError(
                    f"Line {number + 1} is not csv ({error}): quote cells that hold a comma, a quote or a line break, "
                    'and double the quotes in them ("say ""hi""").'
                ) from None
            number += reader.line_num
        if cells != [""]:
            yield number, cells
