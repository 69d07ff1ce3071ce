"""Lines and cells of text files, streamed and capped."""

import csv
import io
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path

from app.errors import InvalidError
from app.formats.detect import Format
from app.formats.gzipped import open_unpacked
from app.formats.quoting import Quotes, Quoting, look_at_quotes, quoted_records, split_quoted

MAX_LINE_CHARACTERS = 16 * 2**20
MAX_COLUMNS = 65_536
QUOTE_BLOCK_BYTES = 2**20
"""Of a file that may hold no quote at all, and then needs no look at its lines."""

Record = tuple[int, list[str]]
"""The number of the line, from 1, and its cells."""


def lines(path: Path, newline: str) -> Iterator[str]:
    """Yield the lines of a UTF-8 text, gzipped or not, with or without a byte order mark, each with its line end."""
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
            raise InvalidError(
                f"Expected text in UTF-8, found the byte 0x{byte:02x} after line {number}: save the file as UTF-8, "
                "or convert it with `iconv -f latin1 -t utf-8 old > new`."
            ) from None


def tsv_quotes(path: Path) -> Quotes:
    """Return what the quotes of a tab-separated file say of how they are meant. Reads the whole file."""
    with open_unpacked(path) as raw:
        if not any(b'"' in block for block in iter(partial(raw.read, QUOTE_BLOCK_BYTES), b"")):
            return Quotes.NONE
    return look_at_quotes(_tsv_lines(path))


def tsv_quoting(path: Path) -> Quoting | None:
    """Return how the quotes of a tab-separated file are meant, None where it has none. Reads the whole file."""
    return tsv_quotes(path).reading


def records(path: Path, file_format: Format, quoting: Quoting) -> Iterator[Record]:
    """Yield the lines of a table that are not blank, all with as many cells as the first.

    csv follows RFC 4180, and ``quoting`` is how the quotes of a tsv are read.
    """
    if file_format is Format.CSV:
        found = _csv_records(path)
    elif quoting is Quoting.QUOTED:
        found = _quoted_records(path)
    else:
        found = _tsv_records(path)
    first: Record | None = None
    for number, cells in found:
        if first is None:
            first = number, cells
            if len(cells) > MAX_COLUMNS:
                raise InvalidError(
                    f"Line {number} has {len(cells):,} columns, more than {MAX_COLUMNS:,}: store the numbers as .npy."
                )
        elif len(cells) != len(first[1]):
            raise InvalidError(
                f"Line {number} has another number of columns ({len(cells):,}) than line {first[0]} "
                f"({len(first[1]):,}): every line needs the same. Look for a stray separator or an unclosed quote."
            )
        yield number, cells


def _tsv_lines(path: Path) -> Iterator[str]:
    # Only \n ends a line: texts do hold lone carriage returns.
    return lines(path, newline="\n")


def _tsv_records(path: Path) -> Iterator[Record]:
    for number, line in enumerate(_tsv_lines(path), start=1):
        if text := line.rstrip("\r\n"):
            yield number, text.split("\t")


def _quoted_records(path: Path) -> Iterator[Record]:
    for number, record in quoted_records(_tsv_lines(path)):
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
        if '"' not in line:  # most lines of numbers, and many times faster
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
