"""Axes that several figures share: steps of training, and logarithms that can be read over few and many decades."""

from collections.abc import Iterable
from math import ceil, floor, inf, log10
from typing import Any

from app.numerals import number, short

LADDERS = ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 4, 5, 6, 7, 8, 9))
"""Leading digits of ticks, the first that give ``FEWEST_TICKS`` are taken."""
FEWEST_TICKS = 3
MOST_DECADES = 6
"""Decades with a tick each; of more, every second, third ..."""
ROOM = 0.04
"""Of the axis, beyond either end."""

ALIKE, ABOUT = 1e-9, 0.2
"""Shares of a value: so much apart two count as one, and so much is shown about it."""

STEP_AXIS = {"title": {"text": "Optimizer step"}, "rangemode": "tozero"}


def linear_axis(
    title: str, values: Iterable[float | None], within: tuple[float, float] | None = None
) -> dict[str, Any]:
    """Return a linear axis; with room about values that are one but for rounding, which plotly would spread over it.

    ``within`` are the ends between which values can lie at all: that room stays between them.
    """
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    axis: dict[str, Any] = {"title": {"text": title}}
    about = ABOUT * (within[1] - within[0] if within else abs(low))
    if about and high <= low + ALIKE * max(abs(low), abs(high)):
        room = ROOM * about
        least, most = (within[0] - room, within[1] + room) if within else (-inf, inf)
        axis["range"] = [max(low - about, least), min(low + about, most)]
    return axis


def log_axis(title: str, values: Iterable[float | None]) -> dict[str, Any]:
    """A logarithmic axis around the positive of the values; plotly's own ticks overlap below two decades."""
    positive = [value for value in values if value is not None and value > 0] or [1.0]
    low, high = log10(min(positive)), log10(max(positive))
    room = ROOM * (high - low) or 0.1
    ticks = log_ticks(10 ** (low - room), 10 ** (high + room))
    return {
        "type": "log",
        "title": {"text": title},
        "range": [low - room, high + room],
        "tickvals": ticks,
        "ticktext": [number(tick, 1) if tick == float(f"{tick:.0e}") else short(tick) for tick in ticks],
    }


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers from low to high, as few as tell the scale; where they lie close together, at equal steps."""
    first, last = floor(log10(low)), ceil(log10(high))
    for ladder in LADDERS:
        every = ceil((last - first) / MOST_DECADES) if ladder == (1,) else 1
        candidates = (float(f"{digit}e{decade}") for decade in range(first, last + 1, every) for digit in ladder)
        ticks = [tick for tick in candidates if low <= tick <= high]
        if len(ticks) >= FEWEST_TICKS:
            return ticks
    decade = 10.0 ** floor(log10(high - low))
    step = next(size for size in (decade, decade / 2, decade / 5) if round((high - low) / size, 9) >= FEWEST_TICKS)
    return [float(f"{i * step:.12g}") for i in range(ceil(low / step), floor(high / step) + 1)]
