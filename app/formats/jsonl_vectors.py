"""Vectors in JSON lines: a list of numbers under a key, or a key for each coordinate."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np

from app.formats.contents import MAX_DISTINCT, Block, Part, annotation_of
from app.formats.jsonl import objects
from app.formats.layout import Kind, roles
from app.formats.row_file import RowFile
from app.formats.table_file import require_columns
from app.formats.tally import cell_text
from app.formats.text import MAX_COLUMNS
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import plural

NUMBERS = frozenset({int, float, type(None)})
"""What a list of numbers may hold: null, which NaN is read as, is a number that is missing."""


@dataclass
class Key:
    """What the objects hold under a key."""

    name: str
    width: int | None = None
    """Numbers in each list; None where the first value is no list of numbers."""
    n: int = 0
    """Values that are not null."""
    types: set[type] = field(default_factory=set)
    distinct: dict[str, None] = field(default_factory=dict)
    trouble: str = ""
    """Why the lists make no matrix."""

    def add(self, value: Any, line: int) -> None:
        """Take the value of a line."""
        if value is None:
            return
        self.n += 1
        is_list = isinstance(value, list) and bool(value) and NUMBERS.issuperset(map(type, value))
        if self.n == 1 and is_list:
            self.width = len(value)
        if self.width is not None and not (is_list and len(value) == self.width):
            self.trouble = self.trouble or (
                f"Line {line} holds {self._found(value)} under {self.name[:80]!r}, where the lines before hold a list "
                f"of {plural(self.width, 'number')}: give every line as many."
            )
        self.types.add(type(value))
        if isinstance(value, (str, int)) and len(self.distinct) <= MAX_DISTINCT:
            self.distinct[cell_text(value)] = None

    def _found(self, value: Any) -> str:
        """Say what is there instead of a list of as many numbers."""
        if not isinstance(value, list):
            return cell_text(value)[:40]
        return plural(len(value), "value") + (" that are not all numbers" if len(value) == self.width else "")

    @property
    def kind(self) -> Kind | None:
        """What the values are, None if some of them are no scalars."""
        if not self.types or not self.types <= {str, bool, int, float}:
            return None
        if not self.types <= {int, float}:
            return Kind.TEXT
        return Kind.REAL if float in self.types else Kind.WHOLE


class JsonlVectors(RowFile):
    """A file of objects a line. Each line is parsed once here and once by each matrix."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.n, keys = _read_keys(path)
        self.parts = _parts(keys, self.n)
        kinds = {key.name: key.kind for key in keys if key.kind is not None}
        numeric, annotations = roles(kinds)
        self.numeric_columns = [] if self.parts else numeric
        if not self.parts and not numeric:
            raise InvalidError(
                "No key of the objects holds a list of numbers or a number, so there are no vectors: "
                'write lines like {"word": "king", "vector": [0.5, -1.25]}.'
            )
        distinct = {key.name: key.distinct for key in keys}
        self.annotations = [annotation_of(name, self.n, distinct[name]) for name in annotations]

    def rows(self, vectors: str | list[str], step: int) -> Iterator[Block]:
        """Yield the lists of a key, or the numbers of some keys."""
        rows = self._lists(vectors) if isinstance(vectors, str) else self._numbers(vectors)
        while block := list(islice(rows, step)):
            yield np.stack(block)

    def values(self, annotation: str) -> Iterator[str]:
        """Return the values of a key."""
        return (cell_text(row.get(annotation)) for _, row in objects(self._path))

    def _lists(self, key: str) -> Iterator[Block]:
        return (_numbers(row[key], line, key) for line, row in objects(self._path))

    def _numbers(self, keys: list[str]) -> Iterator[Block]:
        return (_numbers([row.get(key) for key in keys], line, keys[0]) for line, row in objects(self._path))


def _read_keys(path: Path) -> tuple[int, list[Key]]:
    """Return the number of objects and what they hold under every key."""
    keys: dict[str, Key] = {}
    n = 0
    for line, row in objects(path):
        n += 1
        if not row.keys() <= keys.keys():
            keys |= {name: Key(name) for name in row if name not in keys}
            require_columns(list(keys), MAX_COLUMNS)
        for name, value in row.items():
            keys[name].add(value, line)
    return n, list(keys.values())


def _parts(keys: list[Key], n: int) -> list[Part]:
    """Return the keys whose lists make a matrix; raise the reason if lists are there and none does."""
    lists = [key for key in keys if key.width is not None]
    for key in lists:
        if key.n < n:
            key.trouble = key.trouble or (
                f"{n - key.n:,} of {n:,} lines hold nothing under {key.name[:80]!r}: give every line a list of numbers."
            )
    parts = [Part(name=key.name, n=n, d=cast("int", key.width), dtype="float64") for key in lists if not key.trouble]
    if lists and not parts:
        raise InvalidError(lists[0].trouble)
    return parts


def _numbers(values: list[float | None], line: int, key: str) -> Block:
    """Return a row [d], with NaN for what is missing."""
    try:
        return np.array(values, np.float64)
    except OverflowError:
        raise InvalidError(
            f"Line {line} holds a number under {key[:80]!r} that is too large for 64 bits: write smaller numbers."
        ) from None
