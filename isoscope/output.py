"""What the commands print: lines, and tables whose columns stand under one another."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any


def write(lines: Iterable[str]) -> int:
    """Print lines and return the exit code: 1 where they could not be written, silently to a pipe that was closed."""
    try:
        sys.stdout.writelines(f"{line}\n" for line in lines)
        sys.stdout.flush()
    except OSError as error:
        # Or the interpreter would try, and complain, once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"The output could not be written: {error.strerror}.\n")
        return 1
    return 0


def write_json(document: Any) -> int:
    """Print one JSON document."""
    return write([json.dumps(document, ensure_ascii=False, allow_nan=False)])


def tell(sentence: str) -> None:
    """Say on the standard error how far something is, so that the output stays what was asked for."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table; the last column is as wide as it is."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in (heads, *rows)]


def number(value: float | None) -> str:
    """Return a number in four digits; a dash where there is none."""
    return "-" if value is None else f"{value:.4g}"
