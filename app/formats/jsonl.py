"""JSON lines: an object a line, whose values are text, numbers, true, false or null, or the answers to a question."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from app.formats.span import is_nested_span, span_text
from app.formats.table_file import Scalar, TableFile, require_columns
from app.formats.text import lines
from app.formats.wording import shown, storable
from isoscope.core.errors import InvalidError


def read_jsonl(path: Path) -> TableFile:
    """Open a file; its columns are all keys whose values are nowhere a list or an object, or all of them answers."""
    columns: dict[str, None] = {}
    flat: set[str] = set()
    spans: set[str] = set()
    nested: set[str] = set()
    for _, row in objects(path):
        if not row.keys() <= columns.keys():
            columns.update(dict.fromkeys(row))
            require_columns(list(columns))
        for key, value in row.items():
            if isinstance(value, (dict, list)):
                (spans if is_nested_span(value) else nested).add(key)
            elif value is not None:
                flat.add(key)
    nested |= spans & flat
    names = [name for name in columns if name not in nested]
    if not names:
        raise InvalidError(
            "No key of the objects holds text or numbers in every line, so there is no column to choose: "
            'write lines like {"sentence": "...", "label": 1}.'
        )
    return TableFile(names, partial(_rows, path, names))


def _rows(path: Path, columns: list[str]) -> Iterator[Sequence[Scalar | None]]:
    for number, row in objects(path):
        yield [_scalar(row.get(name), name, number) for name in columns]


def _scalar(value: Any, column: str, number: int) -> Scalar | None:
    if isinstance(value, str):
        return storable(value) if value.strip() else None
    if isinstance(value, dict):
        return span_text(value, column, f"Line {number}")
    scalar: Scalar | None = value
    return scalar


def objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each line that is not blank, and its object."""
    for number, line in enumerate(lines(path, newline="\n"), start=1):
        if line.strip():
            yield number, _parse(line, number)


def _parse(line: str, number: int) -> dict[str, Any]:
    try:
        # NaN and Infinity are no JSON, but Python writes them: a number that is missing.
        row = json.loads(line, parse_constant=lambda _: None, object_pairs_hook=_once)
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
            f"Line {number} holds {type(row).__name__} where an object belongs: "
            'write one object a line, like {"sentence": "...", "label": 1}.'
        )
    return row


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    parsed = dict(pairs)
    if len(parsed) < len(pairs):
        (key, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {shown(key)} occurs twice")
    return parsed
