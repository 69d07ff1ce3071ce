"""The binary file that word2vec writes: a line with n and d, then each word, a space and d numbers of 32 bits."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from app.formats.contents import Block, Part, annotation_of
from app.formats.row_file import RowFile
from app.formats.text import MAX_COLUMNS
from app.formats.word2vec import VECTORS, WORDS
from app.formats.wording import storable
from isoscope.core.errors import InvalidError

READ_BYTES = 2**20
MAX_HEADER_BYTES = 32
MAX_WORD_BYTES = 10_000
FLOAT_BYTES = 4


class Word2VecBinary(RowFile):
    """A file of words and float32 vectors, which the first line counts."""

    def __init__(self, path: Path) -> None:
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
        """Yield the vectors."""
        records = self._records()
        while block := [numbers for _, numbers in islice(records, step)]:
            yield np.frombuffer(b"".join(block), "<f4").reshape(-1, self._d)

    def values(self, annotation: str) -> Iterator[str]:
        """Return the words."""
        return (storable(word.decode("utf-8", "replace")) for word, _ in self._records())

    def _records(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield each word with the bytes of its vector."""
        size = FLOAT_BYTES * self._d
        with self._path.open("rb") as stream:
            stream.seek(self._start)
            held, place = b"", 0
            for i in range(self.n):
                while (space := held.find(b" ", place, place + MAX_WORD_BYTES)) < 0 or len(held) < space + 1 + size:
                    more = stream.read(READ_BYTES + size)
                    if not more or (space < 0 and len(held) - place > MAX_WORD_BYTES):
                        raise InvalidError(
                            f"Word {i + 1:,} of {self.n:,} is cut off or longer than {MAX_WORD_BYTES:,} bytes: the "
                            "file was cut off or altered, or is something else. Write it again."
                        )
                    held, place = held[place:] + more, 0
                yield held[place:space].lstrip(b"\n"), held[space + 1 : space + 1 + size]
                place = space + 1 + size
            if held[place:].strip(b"\n") or stream.read(1):
                raise InvalidError(
                    f"The first line declares {self.n:,} words, but more follow: the file was altered, or is "
                    "something else. Write it again."
                )
