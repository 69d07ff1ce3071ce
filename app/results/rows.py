"""Rows of values of several runs, such as one for each layer or dimension: what seeds have at every place of them."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from app.results.statistics.repeats import by_seed

Row = tuple[int, Sequence[float | None]]
"""The seed of a run, and its values."""


def by_place(rows: Iterable[Row]) -> list[list[float]]:
    """Of each place one value for every seed that has some, up to the end of the longest row."""
    known = list(rows)
    return [
        [*by_seed((seed, value) for (seed, _), value in zip(known, values, strict=True) if value is not None).values()]
        for values in zip_longest(*(values for _, values in known))
    ]
