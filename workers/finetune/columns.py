"""Whole columns of a file, and some of their rows."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Columns = Mapping[str, list[Any]]
"""As long as each other, by name; a missing value is None."""


class Part(NamedTuple):
    """Some rows of a split of a data set."""

    columns: Columns
    numbers: NDArray[np.int64]
    """[n], their positions in the split, from 0, ascending."""


def n_rows(columns: Columns) -> int:
    """Return how many rows the columns have."""
    return len(next(iter(columns.values())))


def rows_of(columns: Columns, places: Iterable[int]) -> Columns:
    """Return the rows of these places, in their order."""
    places = list(places)
    return {name: [values[place] for place in places] for name, values in columns.items()}
