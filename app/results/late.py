"""The last part of training, over which a measure of it is averaged."""

from collections.abc import Iterable
from statistics import fmean

LAST_PART = 0.3
"""Of the steps, as in Kudriashov, Karpik & Klyshinsky (2025), "Shrink the longest"."""


def late_mean(values: Iterable[tuple[int, float | None]], last_step: int) -> float | None:
    """Return the mean of what is known in the last 30 % of the steps of a run; values stand by their steps."""
    late = [value for step, value in values if step >= (1 - LAST_PART) * last_step and value is not None]
    return fmean(late) if late else None
