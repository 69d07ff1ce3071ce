"""Many rows in few characters, as a map sends what was selected on it: ``0-99 120 130-180``, or a bit a point."""

import binascii
import re
from base64 import b64decode
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.db.point_map import MAX_MAPPED
from isoscope.core.errors import InvalidError

RUN = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
FIELD = "rows"
NONE = "No rows are selected. Select some on the map first."


def read_rows(text: str) -> list[int]:
    """Return the rows that runs name, ascending, each once.

    Raises:
        InvalidError: it is none, names no row, or more than a map has.

    """
    runs = [_run(part) for part in text.split()]
    total = sum(last - first + 1 for first, last in runs)
    if not total:
        raise InvalidError(NONE, FIELD)
    if total > MAX_MAPPED:
        raise InvalidError(f"{total:,} rows are too many. Select at most {MAX_MAPPED:,}.", FIELD)
    found: list[int] = np.unique(np.concatenate([np.arange(first, last + 1) for first, last in runs])).tolist()
    return found


def write_rows(rows: Sequence[int]) -> str:
    """Return the runs that name these rows."""
    runs: list[list[int]] = []
    for row in sorted(set(rows)):
        if runs and row == runs[-1][1] + 1:
            runs[-1][1] = row
        else:
            runs.append([row, row])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def read_bits(text: str, points: int) -> NDArray[np.int64]:
    """Return the points of a map whose bits are set in base64, a bit a point, the highest of a byte first.

    Raises:
        InvalidError: it is no such text, or sets none.

    """
    try:
        found = np.frombuffer(b64decode(text, validate=True), np.uint8)
    except (binascii.Error, ValueError):
        found = np.empty(0, np.uint8)
    if len(found) != (points + 7) // 8:
        raise InvalidError("The selection arrived incomplete. Reload the page and select again.", FIELD)
    chosen = np.flatnonzero(np.unpackbits(found, count=points))
    if not len(chosen):
        raise InvalidError(NONE, FIELD)
    return chosen


def _run(part: str) -> tuple[int, int]:
    match = RUN.fullmatch(part)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if first > last:
        raise InvalidError(f"`{part[:40]}` names no rows. Write a number or a run, such as `120` or `0-99`.", FIELD)
    return first, last
