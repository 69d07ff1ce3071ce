"""Colors with fixed meanings, distinct for the color-blind and on light and dark backgrounds.

Every color keeps a contrast of at least 3 : 1 with white and with the dark theme's background, so that one
palette serves both. They are mixed in OKLab, where the middle of two colors looks like their middle.
"""

from functools import lru_cache
from math import asinh, cos, radians, sin

from isotropy.catalog import REGULARIZERS

Oklab = tuple[float, float, float]

# The diverging scale of λ. Negative λ goes from green over blue to violet, 0 is gray, positive λ goes from ochre over
# orange to red. Lightness changes with |λ| too, so that the color-blind can tell λ of one sign apart.
ZERO_COLOR: Oklab = (0.60, 0.0, -0.008)
HUES_BELOW, HUES_ABOVE = (195, 305), (100, -5)
"""Hues of the smallest and the largest |λ|, in degrees, for negative and for positive λ."""
LIGHTNESS, CHROMA = (0.655, 0.545), (0.095, 0.17)
"""Lightness and chroma at the smallest and the largest |λ|."""
LINEAR_LAMBDA, LARGEST_LAMBDA = 0.2, 10.0
"""Colors change linearly with |λ| up to the first, then with log |λ| up to the second, then no more."""

MAIN = "#14938d"
SECOND = "#8059bb"
"""A second series."""
MARKED = "#c04688"
"""What the reader chose, or should notice."""
QUIET = "#7c8186"
"""Context in the background."""

SERIES = (MAIN, SECOND, "#c26a00", "#2f6fb3", MARKED, "#5d7f1f", "#a8553a", "#5a6b7f")
"""Series side by side, such as embeddings or classes. Further series are drawn in QUIET."""

METHODS = {name: penalty.color for name, penalty in REGULARIZERS.items()}
"""Regularizers side by side; their baseline has the color of λ = 0."""

SCALE = ("#c3e3df", "#a3d4ce", "#82c4bc", "#1f7f79", "#0d4a4b")
"""Colors of a heat map from minimum to maximum, each with enough contrast to the number printed on it."""
COLORSCALE = [[step / (len(SCALE) - 1), color] for step, color in enumerate(SCALE)]
"""`SCALE` as plotly expects it: positions from 0 to 1 with colors, interpolated in between."""


@lru_cache(maxsize=1024)
def lambda_color(lam: float) -> str:
    """Return the color of λ, the same in every figure, table and tag."""
    if lam == 0:
        return _oklab_to_hex(ZERO_COLOR)
    share = min(asinh(abs(lam) / LINEAR_LAMBDA) / asinh(LARGEST_LAMBDA / LINEAR_LAMBDA), 1)
    lightness, chroma, hue = (
        start + (end - start) * share for start, end in (LIGHTNESS, CHROMA, HUES_BELOW if lam < 0 else HUES_ABOVE)
    )
    return _oklab_to_hex((lightness, chroma * cos(radians(hue)), chroma * sin(radians(hue))))


def ordered_color(share: float) -> str:
    """Return the color of ordered items, such as layers, from teal at share 0 to violet at 1."""
    hue = radians(185 + 125 * share)
    return _oklab_to_hex((0.64 - 0.12 * share, 0.12 * cos(hue), 0.12 * sin(hue)))


def with_opacity(color: str, opacity: float) -> str:
    """Return a color such as #14938d as CSS with an opacity from 0 to 1."""
    red, green, blue = (int(color[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {opacity:g})"


def _oklab_to_hex(color: Oklab) -> str:
    """Convert OKLab to sRGB (Ottosson 2020). Colors outside sRGB are clipped."""
    lightness, a, b = color
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    clipped = (min(max(channel, 0.0), 1.0) for channel in linear)
    encoded = (12.92 * light if light <= 0.0031308 else 1.055 * light ** (1 / 2.4) - 0.055 for light in clipped)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in encoded)
