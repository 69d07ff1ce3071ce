"""Small clouds by a closed form, the positions of the sliders, the measures there, and their explanation."""

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

# Points of the largest cloud. Smaller clouds are its first points.
MAX_POINTS = 2000
# Independent numbers behind a point: three uniform and three normal ones.
NUMBERS_PER_POINT = 6
# Start of the sequence of numbers, such that the first 8, 32 and 128 points are about as uneven as on average.
SEQUENCE_START = 1_980_000
# Radius over height of a cone with the same variance along its axis and across.
CONE_OPENING = 0.5
SPREADS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SHIFTS = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
SIZES = (8, 32, 128, 512, 2000)
MEASURES = ("mean_cosine", "isoscore", "isoscore_unbiased", "isoscore_star", "partition")
FILE = Path(__file__).with_name("grid.json")
"""Measures by shape, then in nested lists by spread, shift, n and measure."""
# Difference of two scores that is worth a sentence.
NOTABLE_DIFFERENCE = 0.05
# Approximate IsoScore of a line, and of a cloud without a preferred direction.
LINE_ISOSCORE, EVEN_ISOSCORE = 0.05, 0.9

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Shape:
    """A family of clouds. Its spread goes from 0, where directions are missing, to 1, where none is preferred."""

    name: str
    spread: str
    """What the spread sets, for the label of the slider."""
    generate: Callable[[Array, Array, float], Array]
    """Maps uniform numbers, normal numbers, both [n, 3], and a spread to points [n, 3] of any mean and size."""


def generate_cloud(shape: str, spread: float, shift: float, n: int) -> Array:
    """Return points [n, 3] of a shape, float64, with their mean at ``shift`` on the first axis.

    Their root mean square distance from the mean is 1, which is thus the unit of the shift. ``spread`` is from 0 to 1;
    ``SHAPES`` says what it sets. The points behave as independent draws; those of a low-discrepancy sequence would be
    more even than any sample.
    """
    uniform, normal = _generate_numbers()
    points = SHAPES[shape].generate(uniform[:n], normal[:n], spread)
    points -= points.mean(0)
    points /= np.sqrt(np.square(points).sum(1).mean())
    points[:, 0] += shift
    return points


@cache
def _generate_numbers() -> tuple[Array, Array]:
    """Return uniform and normal numbers, both [MAX_POINTS, 3], by SplitMix64 (Steele, Lea and Flood, 2014)."""
    end = SEQUENCE_START + MAX_POINTS * NUMBERS_PER_POINT
    z = np.arange(SEQUENCE_START, end, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    uniform = (((z >> np.uint64(12)).astype(np.float64) + 0.5) / 2**52).reshape(MAX_POINTS, NUMBERS_PER_POINT)
    return uniform[:, :3], np.vectorize(NormalDist().inv_cdf)(uniform[:, 3:])


def _map_to_circle(angles: Array) -> tuple[Array, Array]:
    return np.cos(2 * np.pi * angles), np.sin(2 * np.pi * angles)


def _line(uniform: Array, normal: Array, spread: float) -> Array:
    height = np.sqrt(12) * uniform[:, 0]
    return np.column_stack([spread * normal[:, 0], spread * normal[:, 1], height])


def _circle(uniform: Array, normal: Array, spread: float) -> Array:
    return np.column_stack([*_map_to_circle(uniform[:, 0]), spread * np.sqrt(0.5) * normal[:, 0]])


def _sphere(uniform: Array, normal: Array, spread: float) -> Array:
    height = 2 * uniform[:, 1] - 1
    x, y = _map_to_circle(uniform[:, 0])
    radius = np.sqrt(1 - height**2)
    return np.column_stack([radius * x, radius * y, spread * height])


def _gaussian(uniform: Array, normal: Array, spread: float) -> Array:
    return np.column_stack([normal[:, 0], (1 + spread) / 2 * normal[:, 1], spread * normal[:, 2]])


def _cone(uniform: Array, normal: Array, spread: float) -> Array:
    height = np.cbrt(uniform[:, 0])
    radius = CONE_OPENING * spread * height * np.sqrt(uniform[:, 1])
    x, y = _map_to_circle(uniform[:, 2])
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


class Position(NamedTuple):
    """The values of the sliders."""

    shape: str
    spread: float
    shift: float
    n: int


def snap_to_grid(position: Position) -> Position:
    return Position(
        _require_shape(position.shape),
        _find_closest(SPREADS, position.spread),
        _find_closest(SHIFTS, position.shift),
        _find_closest(SIZES, position.n),
    )


def require_measured_position(position: Position) -> Position:
    """Return the same position; raise InvalidError if nothing was measured there."""
    _require_shape(position.shape)
    coordinates: tuple[tuple[str, Sequence[float]], ...] = (("spread", SPREADS), ("shift", SHIFTS), ("n", SIZES))
    for field, offered in coordinates:
        value = getattr(position, field)
        if value not in offered:
            lower_steps = [step for step in offered if step < value]
            higher_steps = [step for step in offered if step > value]
            choices = " or ".join(f"{step:g}" for step in [*lower_steps[-1:], *higher_steps[:1]] or offered)
            raise InvalidError(f"Nothing was measured at {field} = {value}: take {choices}.", field)
    return position


def get_measures(position: Position) -> dict[str, float]:
    shape, spread, shift, n = position
    values = _read_grid()[shape][SPREADS.index(spread)][SHIFTS.index(shift)][SIZES.index(n)]
    return dict(zip(MEASURES, values, strict=True))


def _require_shape(shape: str) -> str:
    if shape not in SHAPES:
        raise InvalidError(f"Expected a shape among {', '.join(SHAPES)}, got {shape[:40]!r}: choose one.", "shape")
    return shape


@cache
def _read_grid() -> dict[str, Any]:
    grid: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return grid


def _find_closest(values: Sequence[Number], value: float) -> Number:
    return min(values, key=lambda step: abs(step - value))


def explain_measures(position: Position) -> str:
    values = get_measures(position)
    isoscore_of_largest = get_measures(position._replace(n=SIZES[-1]))["isoscore"]
    cosine, isoscore = two_decimals(values["mean_cosine"]), two_decimals(values["isoscore"])
    bias = isoscore_of_largest - values["isoscore"]
    if position.shift:
        centered = get_measures(position._replace(shift=0.0))
        sentences = (
            f"The mean cosine is {cosine} because the cloud lies away from the origin; around the origin it is "
            f"{two_decimals(centered['mean_cosine'])}. Its spread has not changed: IsoScore is {isoscore} in both "
            "places."
        )
    elif values["mean_cosine"] > NOTABLE_DIFFERENCE:
        sentences = (
            f"The mean cosine is {cosine} although the mean is the origin: the points crowd on one side of it. "
            f"IsoScore is {isoscore}."
        )
    elif isoscore_of_largest >= EVEN_ISOSCORE and bias > NOTABLE_DIFFERENCE:
        sentences = (
            f"The cloud is even and around the origin, but {count(position.n)} points of it are too few to show that: "
            f"their mean cosine is {cosine}."
        )
    elif isoscore_of_largest >= EVEN_ISOSCORE:
        sentences = f"Around the origin and even, so that the mean cosine is {cosine}. Now move the shift."
    else:
        is_line = isoscore_of_largest < LINE_ISOSCORE
        reason = "all variance lies on one line" if is_line else "some directions hold less variance than others"
        sentences = (
            f"The mean cosine is {cosine}, as for a perfectly even cloud. IsoScore is {isoscore}: {reason}. A cosine "
            "near 0 is not isotropy."
        )
    if bias > NOTABLE_DIFFERENCE:
        n, largest_n = count(position.n), count(SIZES[-1])
        sentences += (
            f" Few rows make IsoScore low: it is {isoscore} of {n} points and {two_decimals(isoscore_of_largest)} of "
            f"{largest_n} of the same cloud. The bias-corrected estimate from the {n} is "
            f"{two_decimals(values['isoscore_unbiased'])}."
        )
    return sentences
