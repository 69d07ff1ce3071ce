"""Where the sliders can stand, and what was measured at each of their positions."""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from app.playground.clouds import SHAPES
from isoscope.core.errors import InvalidError

SPREADS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SHIFTS = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
SIZES = (8, 32, 128, 512, 2000)
MEASURES = ("mean_cosine", "isoscore", "isoscore_unbiased", "isoscore_star", "partition")
"""Slugs of the catalogue, in the order in which the page shows them."""

Number = TypeVar("Number", int, float)

FILE = Path(__file__).with_name("grid.json")
"""``{shape: [of each spread [of each shift [of each n [a number for each measure]]]]}``."""


class Position(NamedTuple):
    """Where the sliders stand."""

    shape: str
    spread: float
    shift: float
    n: int


def positions() -> Iterator[Position]:
    """All positions, n moving fastest."""
    return (Position(*one) for one in product(SHAPES, SPREADS, SHIFTS, SIZES))


def nearest(wanted: Position) -> Position:
    """The position closest to one whose numbers may lie off the grid.

    Raises:
        InvalidError: there is no such shape.

    """
    return Position(
        _shape(wanted.shape),
        _closest(SPREADS, wanted.spread),
        _closest(SHIFTS, wanted.shift),
        _closest(SIZES, wanted.n),
    )


def require(wanted: Position) -> Position:
    """The same position.

    Raises:
        InvalidError: nothing was measured there.

    """
    _shape(wanted.shape)
    offers: tuple[tuple[str, Sequence[float]], ...] = (("spread", SPREADS), ("shift", SHIFTS), ("n", SIZES))
    for field, offered in offers:
        value = getattr(wanted, field)
        if value not in offered:
            words = " or ".join(f"{one:g}" for one in _neighbours(offered, value))
            raise InvalidError(f"Nothing was measured at {field} = {value}: take {words}.", field)
    return wanted


def numbers_at(position: Position) -> dict[str, float]:
    """What was measured at a position of the grid, by slug, to five digits."""
    shape, spread, shift, n = position
    found = _measured()[shape][SPREADS.index(spread)][SHIFTS.index(shift)][SIZES.index(n)]
    return dict(zip(MEASURES, found, strict=True))


def _shape(wanted: str) -> str:
    """The same shape, where it is one."""
    if wanted not in SHAPES:
        raise InvalidError(f"Expected a shape among {', '.join(SHAPES)}, got {wanted[:40]!r}: choose one.", "shape")
    return wanted


@cache
def _measured() -> dict[str, Any]:
    measured: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return measured


def _closest(offered: Sequence[Number], value: float) -> Number:
    return min(offered, key=lambda one: abs(one - value))


def _neighbours(offered: Sequence[float], value: float) -> list[float]:
    """The offered values on both sides of one that is not, or the end that it lies beyond."""
    below, above = [one for one in offered if one < value], [one for one in offered if one > value]
    return [*below[-1:], *above[:1]] or list(offered)
