"""Lists of numbers in the cells of a table, as pandas writes a column of embeddings."""

from collections.abc import Sequence

from app.formats.wording import shown
from isoscope.core.errors import InvalidError

ELISION = "..."


def is_list(cell: str) -> bool:
    """Whether a cell looks like a list of numbers: [0.5, -1.25], or [ 0.5 -1.25] as NumPy prints it."""
    text = cell.strip()
    return text.startswith("[") and text.endswith("]") and len(text) > len("[]") and not text.startswith("[[")


def parse_list(cell: str, line: int, column: str) -> list[float]:
    """Return the numbers of a cell.

    Raises:
        InvalidError: the cell holds no list of numbers, or one that was shortened when it was printed.

    """
    text = cell.strip()
    if not is_list(text):
        raise InvalidError(
            f"Line {line} holds {shown(text)} in the column {shown(column)}, where other lines hold a list of numbers: "
            "give every line a list such as [0.5, -1.25]."
        )
    values = text[1:-1].replace(",", " ").split()
    if ELISION in values:
        raise InvalidError(
            f"Line {line} holds a shortened list in the column {shown(column)} (with {ELISION!r}): NumPy prints long "
            "arrays so, and their numbers are lost. Write lists instead: "
            f'df["{column[:40]}"] = df["{column[:40]}"].map(list), or save the array as .npy.'
        )
    try:
        return list(map(float, values))
    except ValueError:
        wrong = next(value for value in values if not _is_number(value))
        raise InvalidError(
            f"Line {line} holds {shown(wrong)} in a list of the column {shown(column)}, where a number belongs."
        ) from None


def require_width(values: Sequence[float], d: int, line: int, column: str) -> None:
    """Refuse a list of another length than the first."""
    if len(values) != d:
        raise InvalidError(
            f"Line {line} holds a list of {len(values):,} numbers in the column {shown(column)}, where the lines "
            f"before hold {d:,}: give every line as many."
        )


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
