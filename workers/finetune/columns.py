"""Whole columns of a file, and some of their rows."""

from collections.abc import Iterable, Mapping
from typing import Any

Columns = Mapping[str, list[Any]]
"""As long as each other, by name; a missing value is None."""


def n_rows(columns: Columns) -> int:
    """Return how many rows the columns have."""
    return len(next(iter(columns.values())))


def rows_of(columns: Columns, places: Iterable[int]) -> Columns:
    """Return the rows of these places, in their order."""
    places = list(places)
    return {name: [values[place] for place in places] for name, values in columns.items()}
