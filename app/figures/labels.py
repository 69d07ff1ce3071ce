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
    """Return the display name of a column: λ, IsoScore★ mean, raw, k = 1 ± (95% CI)."""
    if column in GREEK:
        return GREEK[column]
    measure, suffix = (match[1], column[match.end() :]) if (match := MEASURE.match(column)) else ("", column)
    for pattern, words in SUFFIX_PATTERNS:
        suffix = pattern.sub(words, suffix)
    return f"{starred(MEASURES[measure].name) if measure else ''}{suffix}".strip()


WIDTH, HEIGHT = 300, 190
"""Minimum size of a plot's area in pixels, as on a phone. Elsewhere names only get more room."""
LETTER, LINE = 7.0, 16.0
"""Width of a letter and height of a line of a name, in pixels."""
POINT = 7.0
"""Distance from the center of a point to its name, in pixels."""
BAR = 2.0
CORNERS = tuple(product(("top", "bottom"), ("right", "left")))


class LabelBox(NamedTuple):
    """A rectangle in pixels."""

    x0: float
    bottom: float
    right: float
    top: float

    def overlaps(self, box: "LabelBox") -> bool:
        """Return whether two boxes overlap by more than an edge."""
        overlaps_x = self.x0 < box.right and box.x0 < self.right
        return overlaps_x and self.bottom < box.top and box.bottom < self.top


class LabeledPoint(NamedTuple):
    """A point with its name and the half-widths of its error bars."""

    x: float
    y: float
    x_bar: float
    y_bar: float
    name: str


def place_labels(
    points: Sequence[LabeledPoint], x_range: Sequence[float], y_range: Sequence[float]
) -> list[str | None]:
    """Return plotly's textposition for each name, in order of priority; None if there is no room.

    A name stands in one of the four corners around its point, clear of the point's own error bars. If the bars of other
    points cross all corners, it covers a bar. It never covers a point or another name, and never leaves the axes.
    """
    x_scale, y_scale = WIDTH / (x_range[1] - x_range[0]), HEIGHT / (y_range[1] - y_range[0])
    scaled_points = [
        LabeledPoint(p.x * x_scale, p.y * y_scale, p.x_bar * x_scale, p.y_bar * y_scale, p.name) for p in points
    ]
    marks = [LabelBox(p.x - POINT, p.y - POINT, p.x + POINT, p.y + POINT) for p in scaled_points]
    bars = [bar for p in scaled_points for bar in (LabelBox(p.x - p.x_bar, p.y - BAR, p.x + p.x_bar, p.y + BAR),
                                            LabelBox(p.x - BAR, p.y - p.y_bar, p.x + BAR, p.y + p.y_bar))]  # fmt: skip
    frame = LabelBox(x_range[0] * x_scale, y_range[0] * y_scale, x_range[1] * x_scale, y_range[1] * y_scale)
    names: list[LabelBox] = []
    corners_used: list[str | None] = []
    for point in scaled_points:
        corners = {f"{high} {side}": _place_box(point, high, side) for high, side in CORNERS}
        inside = {
            position: box
            for position, box in corners.items()
            if frame.x0 <= box.x0 and box.right <= frame.right and frame.bottom <= box.bottom and box.top <= frame.top
        }
        free = {position: box for position, box in inside.items() if not any(map(box.overlaps, [*marks, *names]))}
        crossed = {position: sum(map(box.overlaps, bars)) for position, box in free.items()}
        position = min(crossed, key=lambda corner: crossed[corner], default=None)
        corners_used.append(position)
        if position:
            names.append(free[position])
    return corners_used


def _place_box(point: LabeledPoint, high: str, side: str) -> LabelBox:
    length = LETTER * len(point.name)
    x0 = point.x + POINT if side == "right" else point.x - POINT - length
    bottom = point.y + POINT if high == "top" else point.y - POINT - LINE
    return LabelBox(x0, bottom, x0 + length, bottom + LINE)


PART_SEPARATOR = re.compile(r"( · |, )")
"""Separators of the parts of a name: sst2 · all-MiniLM-L6-v2 · layer 0, mean."""


def shorten_names(names: Sequence[str], max_length: int) -> list[str]:
    """Shorten names to a length: first drop the parts that all share, then cut.

    Shared leading parts are dropped first, then shared trailing parts. Each name keeps at least one part. Names that
    are still too long lose their middle. If names become equal, all are numbered.
    """
    parts = [PART_SEPARATOR.split(name) for name in names]
    for direction in (1, -1):
        if len(parts) > 1 and any(sum(map(len, pieces)) > max_length for pieces in parts):
            aligned = [pieces[::direction] for pieces in parts]
            end = min(map(len, parts)) - 1
            shared = next((i for i in range(0, end, 2) if len({pieces[i] for pieces in aligned}) > 1), end)
            parts = [pieces[shared:][::direction] for pieces in aligned]
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
