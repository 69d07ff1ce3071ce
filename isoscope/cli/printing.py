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
MEASURE_LEGEND = (
    "SE is the standard error; of a biased measure only the spread between samples of this size. IsoScore and "
    "participation ratio describe these rows: read their bias-corrected forms for the population. n stands in brackets "
    "where rows were sampled or left out"
)

Value = float | list[float | None] | None
"""A measure of one number, or of a list of numbers, each None if undefined."""


def write(lines: Iterable[str]) -> int:
    """Print lines and return the exit code. It is 1 if they cannot be written; a closed pipe gives no message."""
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
    """Print a sentence to standard error, apart from the results on standard output."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table with aligned columns."""
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in (headers, *rows)]


def number(value: float | None) -> str:
    """Format to four digits, and None as a hyphen."""
    return "-" if value is None else f"{value:.4g}"


@contextmanager
def upload_progress(files: Sequence[Path]) -> Iterator[Callable[[int], object]]:
    """Show a progress bar of the bytes sent. Yield a function to be called with the size of each part."""
    from tqdm import tqdm  # noqa: PLC0415 - commands that send nothing do not need it

    total = sum(file.stat().st_size for file in files if file.is_file())
    with tqdm(total=total, desc="sending", unit="B", unit_scale=True, disable=None, leave=False) as bar:
        yield bar.update


def lines_by_group(value_texts: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each measure, given by slug, under the headings of their groups."""
    for group, heading in GROUPS.items():
        group_texts = {slug: text for slug, text in value_texts.items() if MEASURES[slug].group == group}
        if group_texts:
            yield f"\n{heading}"
        for slug, text in group_texts.items():
            yield f"  {MEASURE_NAMES[slug]:{NAME_WIDTH}}  {text}"


def describe_dependence(grouping: str, n_groups: int) -> str | None:
    """Return a sentence about duplicate or grouped rows; None if all rows are independent."""
    if grouping == "duplicates":
        return f"exact duplicates count as one row in errors and bias corrections: {n_groups:,} are distinct"
    if grouping == "groups":
        return f"rows of one group count as one in errors and bias corrections: {n_groups:,} groups"
    return None


def format_measure(
    value: Value, se: float | None, reason: str | None, n: int, n_rows: int | None, detail: Mapping[str, Any] | None
) -> str:
    """Format a value, its standard error and the ``parts`` of its detail, and ``n`` unless that is ``n_rows``."""
    if value is None:
        return f"undefined: {reason}"
    values = value if isinstance(value, list) else [value]
    numbers = ", ".join("-" if item is None else f"{item:.6g}" for item in values)
    error = "" if se is None else f" (SE {se:.2g})"
    parts = (detail or {}).get("parts", {})
    part_texts = [f", {name.replace('_', ' ')} {part:.4g}" for name, part in parts.items() if part is not None]
    return f"{numbers}{error}{''.join(part_texts)}" + ("" if n == n_rows else f"  (n = {n:,})")
