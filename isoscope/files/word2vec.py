"""Word vectors of word2vec, fastText and GloVe: a word and its numbers per line, or word2vec's binary file.

word2vec and fastText begin with the number of words and dimensions, which the binary file needs.
Lines that begin with decimals have no words: ``numpy.savetxt`` writes them.
"""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import plural, storable
from isoscope.files.contents import Block, Part, RowFile, annotation_of
from isoscope.files.text import MAX_COLUMNS, Quoting, lines

HEADER = re.compile(r"(\d{1,12})[ \t](\d{1,6})", re.ASCII)
# Two integers, not necessarily valid counts of words and dimensions.
OTHER_HEADER = re.compile(r"[+-]?\d+[ \t][+-]?\d+", re.ASCII)
NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf)", re.IGNORECASE | re.ASCII)
# A number with a decimal point or an exponent, unlike a word that is a year or an id.
DECIMAL = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(?=e))(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
SAMPLE_LINES = 20
READ_BYTES = 2**20
MAX_HEADER_BYTES = 32
MAX_WORD_BYTES = 10_000
FLOAT_BYTES = 4
VECTORS = "vectors"
WORDS = "words"
TEXTS_ADVICE = "If these are texts, encode them under Encodings."


class Word2VecText(RowFile):
    """A file of words and numbers; each line is read once here and once by each matrix."""

    def __init__(self, path: Path, _: Quoting | None = None) -> None:
        self._path = path
        sample = list(islice(_lines(path), SAMPLE_LINES)) or [""]
        header = HEADER.fullmatch(sample[0])
        self._has_header = header is not None
        rows = sample[self._has_header :] or [""]
        if not header and OTHER_HEADER.fullmatch(sample[0]) and len(rows[-1].split()) > 2:
            raise InvalidError(
                f"The first line declares {sample[0][:40]!r}, expected a number of words and from 1 to "
                f"{MAX_COLUMNS:,} dimensions: the file was altered, or is something else. Write it again."
            )
        self._separator = "\t" if "\t" in rows[0] else " "
        self._has_words = bool(header) or not all(DECIMAL.fullmatch(field) for row in rows for field in row.split()[:1])
        n_numbers = len(self._split_line(rows[0])) - 1
        self._d = int(header[2]) if header else n_numbers
        fields = [row.split(self._separator)[1:] for row in rows]
        if n_numbers > self._d and all(len(row) == n_numbers and all(map(NUMBER.fullmatch, row)) for row in fields):
            raise InvalidError(
                f"The first line declares {self._d:,} numbers a word, but {n_numbers:,} follow each word: "
                "the file was altered, or is something else. Write it again."
            )
        if not 0 < self._d <= MAX_COLUMNS:
            raise InvalidError(
                f"This is not a file of word vectors: after {rows[0][:40]!r} its first line has {self._d:,} numbers, "
                f"not 1 to {MAX_COLUMNS:,}. If it is a table, name it .csv or .tsv. {TEXTS_ADVICE}"
            )
        self.n = sum(1 for _ in self._records())
        if header and (int(header[1]) != self.n or self.n == 0):
            raise InvalidError(
                f"The first line declares {int(header[1]):,} words, and {self.n:,} lines follow: "
                "the file was cut off or altered. Write it again."
            )
        self.parts = [Part(name=VECTORS, n=self.n, d=self._d, dtype="float64")]
        self.numeric_columns = []
        self.annotations = [annotation_of(WORDS, self.n, self.values(WORDS))] if self._has_words else []

    def rows(self, vectors: str | list[str], step: int) -> Iterator[Block]:
        records = self._records()
        while block := [_parse_numbers(number, fields[1:]) for number, fields in islice(records, step)]:
            yield np.array(block)

    def values(self, annotation: str) -> Iterator[str]:
        return (fields[0] for _, fields in self._records())

    def _split_line(self, line: str, max_numbers: int = -1) -> list[str]:
        return line.rsplit(self._separator, max_numbers) if self._has_words else ["", *line.split()]

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        for number, line in enumerate(_lines(self._path), start=1):
            if number == 1 and self._has_header:
                continue
            fields = self._split_line(line, self._d)
            if len(fields) != self._d + 1:
                suffix = " behind its word" if self._has_words else ""
                raise InvalidError(
                    f"Line {number} has {plural(len(fields) - 1, 'number')}{suffix}, expected {self._d:,} as in the "
                    f"first line: the file was cut off, or is something else. Write it again. {TEXTS_ADVICE}"
                )
            yield number, fields


def _lines(path: Path) -> Iterator[str]:
    """Yield lines without the spaces at their ends, and without the blank lines at the end of the file."""
    n_blank = 0
    for line in lines(path, newline="\n"):
        if text := line.rstrip(" \t\r\n"):
            yield from [""] * n_blank
            n_blank = 0
            yield text
        else:
            n_blank += 1


def _parse_numbers(line: int, cells: list[str]) -> list[float]:
    try:
        return list(map(float, cells))
    except ValueError:
        invalid_cell = next(cell for cell in cells if not NUMBER.fullmatch(cell))
        raise InvalidError(
            f"Line {line} has {invalid_cell[:40]!r} where a number belongs. A line of word vectors is a word and "
            f"{plural(len(cells), 'number')} with a decimal point, separated by single spaces. {TEXTS_ADVICE}"
        ) from None


class Word2VecBinary(RowFile):
    """A file of words and float32 vectors, whose first line has the numbers of words and dimensions."""

    def __init__(self, path: Path, _: Quoting | None = None) -> None:
        self._path = path
        with path.open("rb") as stream:
            header = stream.readline(MAX_HEADER_BYTES)
        self._start = len(header)
        self.n, self._d = map(int, header.split())
        if not (0 < self._d <= MAX_COLUMNS and 0 < self.n <= path.stat().st_size // (FLOAT_BYTES * self._d)):
            raise InvalidError(
                f"The first line declares {self.n:,} words of {self._d:,} numbers, which {path.stat().st_size:,} bytes "
                "cannot hold: the file was cut off, or is something else. Write it again."
            )
        self.parts = [Part(name=VECTORS, n=self.n, d=self._d, dtype="float32")]
        self.numeric_columns = []
        self.annotations = [annotation_of(WORDS, self.n, self.values(WORDS))]

    def rows(self, vectors: str | list[str], step: int) -> Iterator[Block]:
        records = self._records()
        while block := [numbers for _, numbers in islice(records, step)]:
            yield np.frombuffer(b"".join(block), "<f4").reshape(-1, self._d)

    def values(self, annotation: str) -> Iterator[str]:
        return (storable(word.decode("utf-8", "replace")) for word, _ in self._records())

    def _records(self) -> Iterator[tuple[bytes, bytes]]:
        size = FLOAT_BYTES * self._d
        with self._path.open("rb") as stream:
            stream.seek(self._start)
            buffer, position = b"", 0
            for i in range(self.n):
                while (space := buffer.find(b" ", position, position + MAX_WORD_BYTES)) < 0 or len(
                    buffer
                ) < space + 1 + size:
                    chunk = stream.read(READ_BYTES + size)
                    if not chunk or (space < 0 and len(buffer) - position > MAX_WORD_BYTES):
                        raise InvalidError(
                            f"Word {i + 1:,} of {self.n:,} is cut off or longer than {MAX_WORD_BYTES:,} bytes: the "
                            "file was cut off or altered, or is something else. Write it again."
                        )
                    buffer, position = buffer[position:] + chunk, 0
                yield buffer[position:space].lstrip(b"\n"), buffer[space + 1 : space + 1 + size]
                position = space + 1 + size
            if buffer[position:].strip(b"\n") or stream.read(1):
                raise InvalidError(
                    f"The first line declares {self.n:,} words, but more follow: the file was altered, or is "
                    "something else. Write it again."
                )
