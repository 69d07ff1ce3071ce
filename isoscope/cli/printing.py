"""Print the results of commands: lines, tables, measures, progress."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from isoscope.core.formatting import starred
from isotropy.catalog import GROUPS, MEASURES

MEASURE_NAMES = {
    slug: starred(measure.name) + (f" ({measure.value})" if measure.value else "") for slug, measure in MEASURES.items()
}
NAME_WIDTH = max(map(len, MEASURE_NAMES.values()))
CELL_LEGEND = (
    "SE is the standard error; of a biased measure only the spread between samples of this size. IsoScore and "
    "participation ratio describe these rows: read their bias-corrected forms for the population. n stands in brackets "
    "where rows were sampled or left out"
)

Value = float | list[float | None] | None


def write(lines: Iterable[str]) -> int:
    """Print lines and return the exit code: 1 if writing fails, without a message for a closed pipe."""
    try:
        sys.stdout.writelines(f"{line}\n" for line in lines)
        sys.stdout.flush()
    except OSError as error:
        # Otherwise the interpreter flushes again at exit and prints a second error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"The output could not be written: {error.strerror}.\n")
        return 1
    return 0


def write_json(document: Any) -> int:
    return write([json.dumps(document, ensure_ascii=False, allow_nan=False)])


def note(sentence: str) -> None:
    """Print progress to standard error."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in (heads, *rows)]


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


@contextmanager
def upload_progress(files: Sequence[Path]) -> Iterator[Callable[[int], object]]:
    """Yield a callback that reports bytes sent."""
    from tqdm import tqdm  # noqa: PLC0415 - commands that send nothing do not need it

    total = sum(file.stat().st_size for file in files if file.is_file())
    with tqdm(total=total, desc="sending", unit="B", unit_scale=True, disable=None, leave=False) as bar:
        yield bar.update


def lines_by_group(cells: Mapping[str, str]) -> Iterator[str]:
    for group, heading in GROUPS.items():
        group_cells = {slug: text for slug, text in cells.items() if MEASURES[slug].group == group}
        if group_cells:
            yield f"\n{heading}"
        for slug, text in group_cells.items():
            yield f"  {MEASURE_NAMES[slug]:{NAME_WIDTH}}  {text}"


def describe_dependence(by: str, groups: int) -> str | None:
    """Return a sentence about duplicate or grouped rows; None if all rows are independent."""
    if by == "duplicates":
        return f"exact duplicates count as one row in errors and bias corrections: {groups:,} are distinct"
    if by == "groups":
        return f"rows of one group count as one in errors and bias corrections: {groups:,} groups"
    return None


def cell(
    value: Value,
    se: float | None,
    reason: str | None,
    n: int,
    total: int | None,
    detail: Mapping[str, Any] | None = None,
) -> str:
    """Format a value with its standard error, the ``parts`` of its detail, and ``n`` unless it equals ``total``."""
    if value is None:
        return f"undefined: {reason}"
    values = value if isinstance(value, list) else [value]
    text = ", ".join("-" if item is None else f"{item:.6g}" for item in values)
    error = "" if se is None else f" (SE {se:.2g})"
    parts = {name.replace("_", " "): part for name, part in (detail or {}).get("parts", {}).items() if part is not None}
    suffix = "".join(f", {name} {part:.4g}" for name, part in parts.items())
    return f"{text}{error}{suffix}" + ("" if n == total else f"  (n = {n:,})")
