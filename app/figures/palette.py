"""Colors with fixed meanings, told apart by the color-blind and on light and dark paper alike.

Every color keeps a contrast of at least 3 : 1 with white and with the dark theme's background, so that one
palette serves both. They are mixed in OKLab, where the middle of two colors looks like their middle.
"""

from functools import lru_cache
from math import cos, radians, sin, sqrt

from isotropy.catalog import REGULARIZERS

Oklab = tuple[float, float, float]

# The diverging scale of λ: blue takes isotropy away, grey leaves it, orange adds it.
BELOW: Oklab = (0.55, -0.0353, -0.1663)
ZERO: Oklab = (0.60, 0.0, -0.008)
ABOVE: Oklab = (0.63, 0.1093, 0.1302)
FULL_AT = 5.0
"""The greatest |λ| of the papers' grids; beyond it the color stays."""
LEAST_STRENGTH = 0.4
"""Even a small λ is told from zero."""

MAIN = "#14938d"
"""The data themselves."""
OTHER = "#8059bb"
"""A second series beside them."""
MARKED = "#c04688"
"""What the reader chose, or should notice."""
QUIET = "#7c8186"
"""Context that stays behind."""

SERIES = (MAIN, OTHER, "#c26a00", "#2f6fb3", MARKED, "#5d7f1f", "#a8553a", "#5a6b7f")
"""Several things side by side: embeddings, classes. There are no more than these; what is beyond is drawn QUIET."""

METHODS = {name: penalty.colour for name, penalty in REGULARIZERS.items()}
"""Regularizers side by side; their baseline has the color of λ = 0."""

SCALE = ("#e6f2f0", "#bfe1dd", "#8cc9c2", "#1f837d", "#0d4a4b")
"""Steps from the least to the greatest of a heat map, each with enough contrast to the number that stands on it."""


@lru_cache(maxsize=1024)
def of_lambda(lam: float) -> str:
    """Color of a λ: the same λ has the same color in every figure, table and tag."""
    if lam == 0:
        return _hex(ZERO)
    strength = LEAST_STRENGTH + (1 - LEAST_STRENGTH) * sqrt(min(abs(lam) / FULL_AT, 1))
    end = BELOW if lam < 0 else ABOVE
    lightness, a, b = (zero + (full - zero) * strength for zero, full in zip(ZERO, end, strict=True))
    return _hex((lightness, a, b))


def of_zeta(zeta: float) -> str:
    """Color of a ζ, from the data's teal at 0 to violet at 1."""
    return in_order(zeta)


def in_order(share: float) -> str:
    """Color of what stands this far along an order, such as layers: from teal at 0 to violet at 1."""
    hue = radians(185 + 125 * share)
    return _hex((0.64 - 0.12 * share, 0.12 * cos(hue), 0.12 * sin(hue)))


def faded(colour: str, opacity: float) -> str:
    """A color that lets the paper through."""
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {opacity:g})"


def _hex(colour: Oklab) -> str:
    """A color of OKLab in sRGB (Ottosson 2020)."""
    lightness, a, b = colour
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    return "#" + "".join(f"{round(255 * _gamma(channel)):02x}" for channel in linear)


def _gamma(channel: float) -> float:
    channel = min(max(channel, 0.0), 1.0)
    return 12.92 * channel if channel <= 0.0031308 else 1.055 * channel ** (1 / 2.4) - 0.055
