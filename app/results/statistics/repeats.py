"""Values that were measured more than once with the same seed: what repeats a run says nothing new."""

from collections.abc import Iterable
from statistics import fmean


def by_seed(measured: Iterable[tuple[int, float]]) -> dict[int, float]:
    """One value for each seed, from the least seed: the mean of its runs, so that a seed counts once."""
    gathered: dict[int, list[float]] = {}
    for seed, value in measured:
        gathered.setdefault(seed, []).append(value)
    return {seed: fmean(gathered[seed]) for seed in sorted(gathered)}
