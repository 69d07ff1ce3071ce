"""Where the names of points stand in a plot, so that none lies on another, on a point or on an error bar."""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

WIDTH, HEIGHT = 300, 190
"""Pixels that a plot has at least for its points, between its axes on a phone: elsewhere names only get more room."""
LETTER, LINE = 7.0, 16.0
"""Of a name, at the size of the plots' type."""
POINT = 7.0
"""From the middle of a point to where its name begins."""
BAR = 2.0
CORNERS = tuple(product(("top", "bottom"), ("right", "left")))


class Box(NamedTuple):
    """A rectangle in pixels."""

    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: "Box") -> bool:
        """Whether they have more than an edge in common."""
        across = self.left < other.right and other.left < self.right
        return across and self.bottom < other.top and other.bottom < self.top

    def within(self, other: "Box") -> bool:
        """Whether nothing of it is outside of the other."""
        across = other.left <= self.left and self.right <= other.right
        return across and other.bottom <= self.bottom and self.top <= other.top


class Named(NamedTuple):
    """A point with the half-widths of its error bars, and what it is called."""

    x: float
    y: float
    x_bar: float
    y_bar: float
    name: str


def positions(points: Sequence[Named], x_range: Sequence[float], y_range: Sequence[float]) -> list[str | None]:
    """Plotly's textposition of each name, those first in the sequence first; None where there is no room.

    A name stands beside its point in one of the four corners that its own error bars leave free; where bars of other
    points cross all of them it lies on a bar sooner than to be left out, never on a point or a name or beyond the axes.
    """
    scale = WIDTH / (x_range[1] - x_range[0]), HEIGHT / (y_range[1] - y_range[0])
    placed = [_scaled(point, scale) for point in points]
    marks = [Box(p.x - POINT, p.y - POINT, p.x + POINT, p.y + POINT) for p in placed]
    bars = [bar for p in placed for bar in (Box(p.x - p.x_bar, p.y - BAR, p.x + p.x_bar, p.y + BAR),
                                            Box(p.x - BAR, p.y - p.y_bar, p.x + BAR, p.y + p.y_bar))]  # fmt: skip
    frame = Box(x_range[0] * scale[0], y_range[0] * scale[1], x_range[1] * scale[0], y_range[1] * scale[1])
    names: list[Box] = []
    found: list[str | None] = []
    for point in placed:
        corners = {f"{high} {side}": _corner(point, high, side) for high, side in CORNERS}
        inside = {where: box for where, box in corners.items() if box.within(frame)}
        free = {where: box for where, box in inside.items() if not any(map(box.meets, [*marks, *names]))}
        crossed = {where: sum(map(box.meets, bars)) for where, box in free.items()}
        where = min(crossed, key=lambda corner: crossed[corner], default=None)
        found.append(where)
        if where:
            names.append(free[where])
    return found


def _scaled(point: Named, scale: tuple[float, float]) -> Named:
    across, up = scale
    return Named(point.x * across, point.y * up, point.x_bar * across, point.y_bar * up, point.name)


def _corner(point: Named, high: str, side: str) -> Box:
    length = LETTER * len(point.name)
    left = point.x + POINT if side == "right" else point.x - POINT - length
    bottom = point.y + POINT if high == "top" else point.y - POINT - LINE
    return Box(left, bottom, left + length, bottom + LINE)
