"""Small clouds by a closed form, where the sliders can stand, what was measured there, and what just happened."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import count, two_decimals

Array = NDArray[np.float64]

MOST = 2000
"""Points of the greatest cloud. A smaller one is its beginning."""
NUMBERS = 6
"""Independent numbers behind a point: three of each kind."""
FIRST = 1_980_000
"""Where the sequence of numbers begins: the first 8, 32 and 128 points of a shape are about as uneven as on average."""
CONE = 0.5
"""Radius over height of a cone whose variance is the same along its axis and across."""


@dataclass(frozen=True)
class Shape:
    """A family of clouds. ``spread`` goes from 0, where directions are missing, to 1, where none is preferred."""

    name: str
    spread: str
    """What its spread is, for the label of the slider."""
    points: Callable[[Array, Array, float], Array]
    """Of uniform numbers and normal ones, both [n, 3], and a spread: [n, 3], of any mean and size."""


def cloud(shape: str, spread: float, shift: float, n: int) -> Array:
    """The points [n, 3] of a shape, float64, their mean at ``shift`` on the first axis.

    They are scaled so that their root mean square distance from the mean is 1, which is thus the unit of the shift.

    Args:
        shape: a key of ``SHAPES``.
        spread: from 0 to 1, of what ``SHAPES`` says.
        shift: distance of the mean from the origin.
        n: from 2 to ``MOST``. The points behave as independent draws, so that few of them tell as little as few do;
            those of a low-discrepancy sequence would be more even than any sample.

    """
    uniform, normal = _numbers()
    points = SHAPES[shape].points(uniform[:n], normal[:n], spread)
    points -= points.mean(0)
    points /= np.sqrt(np.square(points).sum(1).mean())
    points[:, 0] += shift
    return points


@cache
def _numbers() -> tuple[Array, Array]:
    """Numbers uniform on (0, 1) and normal ones, both [MOST, 3], from the mixing function of SplitMix64.

    Steele, Lea and Flood: Fast Splittable Pseudorandom Number Generators (OOPSLA 2014).
    """
    z = np.arange(FIRST, FIRST + MOST * NUMBERS, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    uniform = (((z >> np.uint64(12)).astype(np.float64) + 0.5) / 2**52).reshape(MOST, NUMBERS)
    return uniform[:, :3], np.vectorize(NormalDist().inv_cdf)(uniform[:, 3:])


def _around(angles: Array) -> tuple[Array, Array]:
    """Points on the unit circle, by angles as parts of a whole turn."""
    return np.cos(2 * np.pi * angles), np.sin(2 * np.pi * angles)


def _line(uniform: Array, normal: Array, spread: float) -> Array:
    along = np.sqrt(12) * uniform[:, 0]
    return np.column_stack([spread * normal[:, 0], spread * normal[:, 1], along])


def _circle(uniform: Array, normal: Array, spread: float) -> Array:
    return np.column_stack([*_around(uniform[:, 0]), spread * np.sqrt(0.5) * normal[:, 0]])


def _sphere(uniform: Array, normal: Array, spread: float) -> Array:
    height = 2 * uniform[:, 1] - 1
    x, y = _around(uniform[:, 0])
    radius = np.sqrt(1 - height**2)
    return np.column_stack([radius * x, radius * y, spread * height])


def _gaussian(uniform: Array, normal: Array, spread: float) -> Array:
    return np.column_stack([normal[:, 0], (1 + spread) / 2 * normal[:, 1], spread * normal[:, 2]])


def _cone(uniform: Array, normal: Array, spread: float) -> Array:
    """Evenly filled, its axis the first, its tip the least of it."""
    height = np.cbrt(uniform[:, 0])
    radius = CONE * spread * height * np.sqrt(uniform[:, 1])
    x, y = _around(uniform[:, 2])
    return np.column_stack([height, radius * x, radius * y])


def _skewed(uniform: Array, normal: Array, spread: float) -> Array:
    skewed = uniform**4
    return np.column_stack([skewed[:, 0], spread * skewed[:, 1], spread * skewed[:, 2]])


SHAPES: Mapping[str, Shape] = {
    "line": Shape("Line", "standard deviation across the line, in units of that along it", _line),
    "circle": Shape("Circle", "standard deviation out of the circle’s plane, in units of that within", _circle),
    "sphere": Shape("Sphere", "height of the sphere, in units of its width", _sphere),
    "gaussian": Shape("Gaussian", "shortest axis in units of the longest; the third lies halfway", _gaussian),
    "cone": Shape("Narrow cone", "its opening; at 1 a half angle of 27°, and as much variance along as across", _cone),
    "skewed": Shape("Skewed cloud", "standard deviation of two coordinates, in units of the first", _skewed),
}


SPREADS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SHIFTS = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
SIZES = (8, 32, 128, 512, 2000)
MEASURES = ("mean_cosine", "isoscore", "isoscore_unbiased", "isoscore_star", "partition")
"""Slugs of the catalog, in the order in which the page shows them."""

Number = TypeVar("Number", int, float)

FILE = Path(__file__).with_name("grid.json")
"""``{shape: [of each spread [of each shift [of each n [a number for each measure]]]]}``."""


class Position(NamedTuple):
    """Where the sliders stand."""

    shape: str
    spread: float
    shift: float
    n: int


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


NOTICED = 0.05
"""Difference of two scores that a sentence is worth."""
LOW, EVEN = 0.05, 0.9
"""IsoScore of a line, about, and of a cloud that prefers no direction."""


def explain(position: Position) -> str:
    """Why mean cosine and IsoScore are what they are at a position of the grid."""
    found = numbers_at(position)
    many = numbers_at(position._replace(n=SIZES[-1]))
    sentences = _of_shift(position, found) if position.shift else _of_spread(position, found, many["isoscore"])
    if many["isoscore"] - found["isoscore"] > NOTICED:
        n, most = count(position.n), count(SIZES[-1])
        return (
            f"{sentences} Few rows make IsoScore low: it is {two_decimals(found['isoscore'])} of {n} points and "
            f"{two_decimals(many['isoscore'])} of {most} of the same cloud. The bias-corrected estimate from the {n} "
            f"is {two_decimals(found['isoscore_unbiased'])}."
        )
    return sentences


def _of_shift(position: Position, found: dict[str, float]) -> str:
    centred = numbers_at(position._replace(shift=0.0))
    return (
        f"The mean cosine is {two_decimals(found['mean_cosine'])} because the cloud lies away from the origin; around "
        f"the origin it is {two_decimals(centred['mean_cosine'])}. Its spread has not changed: IsoScore is "
        f"{two_decimals(found['isoscore'])} in both places."
    )


def _of_spread(position: Position, found: dict[str, float], isoscore: float) -> str:
    """Of a cloud around the origin, whose IsoScore would be ``isoscore`` if there were many points."""
    cosine = two_decimals(found["mean_cosine"])
    if found["mean_cosine"] > NOTICED:
        return (
            f"The mean cosine is {cosine} although the mean is the origin: the points crowd on one side of it. "
            f"IsoScore is {two_decimals(found['isoscore'])}."
        )
    if isoscore >= EVEN and isoscore - found["isoscore"] > NOTICED:
        return (
            f"The cloud is even and around the origin, but {count(position.n)} points of it are too few to show that: "
            f"their mean cosine is {cosine}."
        )
    if isoscore >= EVEN:
        return f"Around the origin and even, so that the mean cosine is {cosine}. Now move the shift."
    where = "all variance lies on one line" if isoscore < LOW else "some directions hold less variance than others"
    return (
        f"The mean cosine is {cosine}, as of a perfectly even cloud. IsoScore is {two_decimals(found['isoscore'])}: "
        f"{where}. A cosine near 0 is not isotropy."
    )
