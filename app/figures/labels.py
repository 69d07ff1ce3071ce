"""Column headings, short names, and label placement in plots."""

import re
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from app.db.config import OPTIONS
from app.db.options.option import lowercase_label
from isoscope.core.formatting import starred
from isotropy.catalog import MEASURES

GREEK = {"lambda": "λ", "lam": "λ", "zeta": "ζ"}
SUFFIX_PATTERNS = (
    (re.compile(r"_?ci95_half_width$"), " ± (95% CI)"),
    (re.compile(r"\bcentred(?=_\d)"), "centered"),
    (re.compile(r"\b(raw|centered)_(\d)"), r"\1, k = \2"),
    (re.compile(r"^_(\d)\b"), r", k = \1"),
    (re.compile(r"_"), " "),
)
MEASURE = re.compile(rf"({'|'.join(sorted(MEASURES, key=len, reverse=True))})(?=_|$)")
DATA_SET = {"task": "Data set"}
"""The label of ``task`` in columns and searches, where it names the data set."""


def field_heading(field: str) -> str:
    label = DATA_SET.get(field) or (OPTIONS[field].label if field in OPTIONS else "")
    return label or field.replace("_", " ").capitalize()


def field_in_sentence(field: str) -> str:
    return lowercase_label(field_heading(field))


def heading(column: str) -> str:
    """Return the display name of a table's column: λ; IsoScore★ mean; raw, k = 1 ± (95% CI)."""
    if column in GREEK:
        return GREEK[column]
    measure, suffix = (match[1], column[match.end() :]) if (match := MEASURE.match(column)) else ("", column)
    for pattern, words in SUFFIX_PATTERNS:
        suffix = pattern.sub(words, suffix)
    return f"{starred(MEASURES[measure].name) if measure else ''}{suffix}".strip()


MIN_WIDTH, MIN_HEIGHT = 300, 190
"""Size of a plot's area in pixels on a phone. On larger screens names only get more room."""
LETTER_WIDTH, LINE_HEIGHT = 7.0, 16.0
"""Width of a letter and height of a line of a name, in pixels."""
GAP = 7.0
"""Distance from the center of a point to its name, in pixels. Names keep it from all points."""
HALF_BAR = 2.0
"""Half of the thickness of an error bar, with some room around it, in pixels."""
CORNERS = tuple(product(("top", "bottom"), ("right", "left")))


class LabelBox(NamedTuple):
    """A rectangle in pixels."""

    x_min: float
    y_min: float
    x_max: float
    y_max: float

    def overlaps(self, box: "LabelBox") -> bool:
        """Return whether two boxes overlap. Boxes that only touch do not."""
        overlaps_x = self.x_min < box.x_max and box.x_min < self.x_max
        return overlaps_x and self.y_min < box.y_max and box.y_min < self.y_max


class LabeledPoint(NamedTuple):
    """A point with its name and the half-lengths of its horizontal and vertical error bars."""

    x: float
    y: float
    x_bar: float
    y_bar: float
    name: str


def place_labels(
    points: Sequence[LabeledPoint], x_range: Sequence[float], y_range: Sequence[float]
) -> list[str | None]:
    """Return plotly's textposition for each name; None if there is no room for it. Earlier points get room first.

    A name stands in one of the four corners around its point, clear of the point's own error bars. If bars of other
    points cross every corner, it covers a bar. It never covers a point or another name, and never leaves the axes.
    """
    x_scale, y_scale = MIN_WIDTH / (x_range[1] - x_range[0]), MIN_HEIGHT / (y_range[1] - y_range[0])
    scaled_points = [
        LabeledPoint(p.x * x_scale, p.y * y_scale, p.x_bar * x_scale, p.y_bar * y_scale, p.name) for p in points
    ]
    marks = [LabelBox(p.x - GAP, p.y - GAP, p.x + GAP, p.y + GAP) for p in scaled_points]
    x_bars = [LabelBox(p.x - p.x_bar, p.y - HALF_BAR, p.x + p.x_bar, p.y + HALF_BAR) for p in scaled_points]
    y_bars = [LabelBox(p.x - HALF_BAR, p.y - p.y_bar, p.x + HALF_BAR, p.y + p.y_bar) for p in scaled_points]
    area = LabelBox(x_range[0] * x_scale, y_range[0] * y_scale, x_range[1] * x_scale, y_range[1] * y_scale)
    names: list[LabelBox] = []
    corners_used: list[str | None] = []
    for point in scaled_points:
        corners = {f"{edge} {side}": _place_box(point, edge, side) for edge, side in CORNERS}
        inside = {
            position: box
            for position, box in corners.items()
            if area.x_min <= box.x_min and box.x_max <= area.x_max
            if area.y_min <= box.y_min and box.y_max <= area.y_max
        }
        free = {position: box for position, box in inside.items() if not any(map(box.overlaps, [*marks, *names]))}
        crossed = {position: sum(map(box.overlaps, [*x_bars, *y_bars])) for position, box in free.items()}
        position = min(crossed, key=lambda corner: crossed[corner], default=None)
        corners_used.append(position)
        if position:
            names.append(free[position])
    return corners_used


def _place_box(point: LabeledPoint, edge: str, side: str) -> LabelBox:
    """Return the box of a point's name above or below it (``edge`` is top or bottom), to the right or left of it."""
    length = LETTER_WIDTH * len(point.name)
    x_min = point.x + GAP if side == "right" else point.x - GAP - length
    y_min = point.y + GAP if edge == "top" else point.y - GAP - LINE_HEIGHT
    return LabelBox(x_min, y_min, x_min + length, y_min + LINE_HEIGHT)


PART_SEPARATOR = re.compile(r"( · |, )")
"""Separators of the parts of a name: sst2 · all-MiniLM-L6-v2 · layer 0, mean."""


def shorten_names(names: Sequence[str], max_length: int) -> list[str]:
    """Shorten names to ``max_length`` characters if any is longer.

    Leading parts that all names share are dropped first, then shared trailing parts. Each name keeps at least one part.
    Names that are still too long lose their middle. If names become equal, all are numbered.
    """
    parts = [PART_SEPARATOR.split(name) for name in names]  # each second piece is a separator
    for direction in (1, -1):
        if len(parts) > 1 and any(sum(map(len, pieces)) > max_length for pieces in parts):
            aligned = [pieces[::direction] for pieces in parts]
            end = min(map(len, parts)) - 1
            n_shared = next((i for i in range(0, end, 2) if len({pieces[i] for pieces in aligned}) > 1), end)
            parts = [pieces[n_shared:][::direction] for pieces in aligned]
    full_names = ["".join(pieces) for pieces in parts]
    shortened = [_cut_middle(name, max_length) for name in full_names]
    if len(set(shortened)) == len(shortened):
        return shortened
    return [f"{i}. {_cut_middle(name, max_length - len(f'{i}. '))}" for i, name in enumerate(full_names, 1)]


def _cut_middle(name: str, max_length: int) -> str:
    if len(name) <= max_length:
        return name
    tail = (max_length - 1) // 2
    return f"{name[: max_length - 1 - tail]}…{name[len(name) - tail :]}"
