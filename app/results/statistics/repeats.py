"""Values that were measured more than once with the same seed: what repeats a run says nothing new."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from statistics import fmean


def by_seed(measured: Iterable[tuple[int, float]]) -> dict[int, float]:
    """One value for each seed, from the least seed: the mean of its runs, so that a seed counts once."""
    gathered: dict[int, list[float]] = {}
    for seed, value in measured:
        gathered.setdefault(seed, []).append(value)
    return {seed: fmean(gathered[seed]) for seed in sorted(gathered)}


Row = tuple[int, Sequence[float | None]]
"""The seed of a run, and its values."""


def by_place(rows: Iterable[Row]) -> list[list[float]]:
    """Of each place one value for every seed that has some, up to the end of the longest row."""
    known = list(rows)
    return [
        [*by_seed((seed, value) for (seed, _), value in zip(known, values, strict=True) if value is not None).values()]
        for values in zip_longest(*(values for _, values in known))
    ]


LAST_PART = 0.3
"""Of the steps, as in Kudriashov, Karpik & Klyshinsky (2025), "Shrink the longest"."""


def tail_mean(values: Iterable[tuple[int, float | None]], last_step: int) -> float | None:
    """Return the mean of what is known in the last 30 % of the steps of a run; values stand by their steps."""
    late = [value for step, value in values if step >= (1 - LAST_PART) * last_step and value is not None]
    return fmean(late) if late else None
