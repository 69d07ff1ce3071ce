"""JSON lines: one object per line, with text, numbers, lists of numbers, or answers to a question."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import plural, quote
from isoscope.files.contents import MAX_DISTINCT, Block, Part, annotation_of, cell_text
from isoscope.files.span import Span, is_nested_span
from isoscope.files.table import (
    MAX_COLUMNS,
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
from isoscope.files.text import MAX_COLUMNS as MAX_VECTOR_COLUMNS
from isoscope.files.text import Quoting, lines

# Null in a list is a missing number; NaN is read as null.
NUMBERS = frozenset({int, float, type(None)})
SCALARS = frozenset({str, bool, int, float})


@dataclass
class JsonlKey:
    """Statistics of the values under a key."""

    name: str
    # Length of each list; None if the first value is not a list of numbers.
    width: int | None = None
    # Number of lines with a value.
    n: int = 0
    types: set[type] = field(default_factory=set)
    distinct: dict[str, None] = field(default_factory=dict)
    problem: str = ""

    def add(self, value: Any, line: int) -> None:
        if value is None:
            return
        self.n += 1
        is_list = isinstance(value, list) and bool(value) and NUMBERS.issuperset(map(type, value))
        if self.n == 1 and is_list:
            self.width = len(value)
        if self.width is not None and not self.problem and not (is_list and len(value) == self.width):
            content = plural(len(value), "value") if isinstance(value, list) else cell_text(value)[:40]
            if isinstance(value, list) and len(value) == self.width:
                content += " that are not all numbers"
            self.problem = (
                f"Line {line} holds {content} under {self.name[:80]!r}, where the lines before hold a list of "
                f"{plural(self.width, 'number')}: give every line as many."
            )
        self.types.add(Span if is_nested_span(value) else type(value))
        if isinstance(value, (str, int)) and len(self.distinct) <= MAX_DISTINCT:
            self.distinct[cell_text(value)] = None

    @property
    def kind(self) -> ValueKind | None:
        if not self.types or not self.types <= SCALARS:
            return None
        if not self.types <= {int, float}:
            return ValueKind.TEXT
        return ValueKind.REAL if float in self.types else ValueKind.INTEGER


def open_table(path: Path, _: Quoting | None = None) -> Table:
    """Open a file; its columns are the keys whose values are text, numbers or answers in every line."""
    table = JsonlTable(path, MAX_COLUMNS)
    if not table.columns:
        raise InvalidError(
            "No key of the objects holds text or numbers in every line, so there is no column to choose: "
            'write lines like {"sentence": "...", "label": 1}.'
        )
    return table


def open_vectors(path: Path, _: Quoting | None = None) -> TableVectors:
    return TableVectors(JsonlTable(path, MAX_VECTOR_COLUMNS))


class JsonlTable(VectorTable):
    """A file of objects. Each line is parsed once here and once by each reader."""

    def __init__(self, path: Path, max_keys: int) -> None:
        self._path = path
        self._n = 0
        keys: dict[str, JsonlKey] = {}
        for line, row in read_objects(path):
            self._n += 1
            if not row.keys() <= keys.keys():
                keys |= {name: JsonlKey(name) for name in row if name not in keys}
                require_columns(list(keys), max_keys)
            for name, value in row.items():
                keys[name].add(value, line)
        self._keys = list(keys.values())
        self.columns = [key.name for key in self._keys if key.types <= SCALARS or key.types == {Span}]

    def vector_columns(self) -> VectorColumns:
        # Offer the keys whose lists make a matrix; if none do, raise the reason for the first.
        n = self._n
        lists = [key for key in self._keys if key.width is not None]
        for key in lists:
            if key.n < n:
                key.problem = key.problem or (
                    f"{n - key.n:,} of {n:,} lines hold nothing under {key.name[:80]!r}: give every line a list of "
                    "numbers."
                )
        parts = [
            Part(name=key.name, n=n, d=cast("int", key.width), dtype="float64") for key in lists if not key.problem
        ]
        if lists and not parts:
            raise InvalidError(lists[0].problem)
        numeric, annotation_names = assign_roles({key.name: key.kind for key in self._keys if key.kind is not None})
        if not parts and not numeric:
            raise InvalidError(
                "No key of the objects holds a list of numbers or a number, so there are no vectors: "
                'write lines like {"word": "king", "vector": [0.5, -1.25]}.'
            )
        distinct = {key.name: key.distinct for key in self._keys}
        annotations = [annotation_of(name, n, distinct[name]) for name in annotation_names]
        return VectorColumns(n, parts, numeric, annotations)

    def cells(self, columns: Sequence[str]) -> Cells:
        return ((line, [row.get(key) for key in columns]) for line, row in read_objects(self._path))

    def lists(self, column: str, step: int) -> Iterator[Block]:
        return blocks((_to_array(values, line, column) for line, (values,) in self.cells([column])), step)

    def numbers(self, columns: list[str], step: int) -> Iterator[Block]:
        return blocks((_to_array(values, line, columns[0]) for line, values in self.cells(columns)), step)


def _to_array(values: Sequence[float | None], line: int, key: str) -> Block:
    try:
        return np.array(values, np.float64)
    except OverflowError:
        raise InvalidError(
            f"Line {line} holds a number under {key[:80]!r} that is too large for 64 bits: write smaller numbers."
        ) from None


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines(path, newline="\n"), start=1):
        if not line.strip():
            continue
        try:
            # NaN and Infinity are not JSON, but Python writes them: read them as missing numbers.
            row = json.loads(line, parse_constant=lambda _: None, object_pairs_hook=reject_duplicate_keys)
        except ValueError as error:
            raise InvalidError(
                f"Line {number} is not JSON ({str(error)[:120]}): write one whole object a line, "
                'like {"sentence": "...", "label": 1}.'
            ) from None
        except RecursionError:
            raise InvalidError(
                f"Line {number} is nested too deeply: write objects whose values are text and numbers."
            ) from None
        if not isinstance(row, dict):
            raise InvalidError(
                f"Line {number} holds {type(row).__name__} where an object belongs: write one object a line, like "
                '{"sentence": "...", "label": 1} or {"word": "king", "vector": [0.5, -1.25]}.'
            )
        yield number, row


def reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object of some pairs; raise ValueError for a key that occurs twice."""
    parsed = dict(pairs)
    if len(parsed) < len(pairs):
        (key, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {quote(key)} occurs twice")
    return parsed
