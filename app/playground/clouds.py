"""Clouds of points in three dimensions by a closed form: the same on every machine, and the page needs no generator."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

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
