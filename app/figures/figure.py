"""Figures: a plot with its table, title and caption, and axes that several figures share."""

import csv
import io
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from html import escape
from math import ceil, floor, inf, isfinite, log10
from typing import Any, TypeVar, overload

import plotly.graph_objects as go

from app.figures.palette import with_opacity
from isoscope.core.formatting import number, short

Cell = str | float | None
Item = TypeVar("Item")
Trace = dict[str, Any]  # properties of a scatter, which the figure checks; a ``go.Scatter`` would be checked twice

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

# The browser adds the theme: colors of text, axes and grid, and the page's fonts.
TEMPLATE = go.layout.Template(
    layout={
        "autotypenumbers": "strict",
        "paper_bgcolor": "rgba(0, 0, 0, 0)",
        "plot_bgcolor": "rgba(0, 0, 0, 0)",
        "margin": {"l": 8, "r": 16, "t": 16, "b": 8},
        "font": {"size": 13},
        "hovermode": "closest",
        "hoverlabel": {"align": "left"},
        "showlegend": False,
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1.02,
            "yanchor": "bottom",
            "font": {"size": 12},
            "title": {"side": "left", "font": {"size": 12}},
        },
        # Below the plot: a wide name among the others would take their columns.
        "legend2": {"orientation": "h", "x": 0, "yref": "container", "y": 0, "yanchor": "bottom", "font": {"size": 12}},
        "dragmode": "zoom",
        **{
            axis: {
                "automargin": True,
                "gridwidth": 1,
                "zeroline": False,
                "showline": True,
                "ticks": "outside",
                "ticklen": 4,
                "tickfont": {"size": 12},
                "title": {"standoff": 12, "font": {"size": 13}},
                "separatethousands": True,
                # Beyond its prefixes, plotly would write powers of ten with inline styles, which pages do not allow.
                "exponentformat": "e",
                "minexponent": 5,
            }
            for axis in ("xaxis", "yaxis")
        },
    }
)


class ColumnarRows(Sequence[list[Cell]]):
    """Rows of equally long columns, built on access, because building 50,000 at once is slow."""

    def __init__(self, *columns: Sequence[Cell]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    @overload
    def __getitem__(self, index: int) -> list[Cell]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[Cell]]: ...
    def __getitem__(self, index: int | slice) -> list[Cell] | list[list[Cell]]:
        if isinstance(index, slice):
            return [list(row) for row in zip(*(column[index] for column in self.columns), strict=True)]
        return [column[index] for column in self.columns]

    def __iter__(self) -> Iterator[list[Cell]]:
        return map(list, zip(*self.columns, strict=True))


@dataclass(frozen=True)
class FigureTable:
    """The numbers of a figure, unrounded."""

    columns: list[str]
    rows: Sequence[list[Cell]]

    def csv(self) -> str:
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([_escape_formula(column) for column in self.columns])
        writer.writerows([_escape_formula(cell) for cell in row] for row in self.rows)
        return file.getvalue()


@dataclass(frozen=True)
class Figure:
    """A figure by its slug, which names its URL and its files. ``draw`` makes the plot on demand.

    ``empty`` says what will appear, if there is nothing to draw yet. A ``wide`` figure scrolls below its minimum width.
    """

    slug: str
    title: str
    caption: str
    table: FigureTable
    draw: Callable[[], go.Figure]
    empty: str | None = None
    wide: bool = False

    @cached_property
    def version(self) -> str:
        """Return a digest that changes with the numbers or the text."""
        digest = blake2b(repr((self.caption, self.table.columns)).encode(), digest_size=8)
        rows = self.table.rows
        for column in rows.columns if isinstance(rows, ColumnarRows) else zip(*rows, strict=True):
            try:
                digest.update(array("d", column).tobytes())
            except TypeError:
                digest.update(repr([*column]).encode())
        return digest.hexdigest()

    def json(self) -> str:
        """Return the plot as plotly JSON, without traces if there is nothing to draw yet."""
        figure = plot([]) if self.empty else self.draw()
        return str(figure.to_json())


def undefined_figure(slug: str, title: str, reason: str) -> Figure:
    """Return a figure that shows why its value is undefined."""
    return Figure(slug, title, "", FigureTable([], []), draw=partial(plot, []), empty=reason)


def plot(traces: list[Any], **layout: Any) -> go.Figure:
    return go.Figure(traces, {"template": TEMPLATE, **layout})


def band(
    x: Sequence[float], low: Sequence[float], high: Sequence[float], color: str, opacity: float, **properties: Any
) -> list[go.Scatter]:
    """Return the lower edge of a band, and the upper edge with a fill down to it."""
    edge = {"x": x, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False, **properties}
    return [
        go.Scatter(y=low, **edge),
        go.Scatter(y=high, fill="tonexty", fillcolor=with_opacity(color, opacity), **edge),
    ]


def interval_bars(intervals: Iterable[tuple[float | None, ...]], **style: Any) -> dict[str, Any]:
    """Return plotly's error bars for intervals: value, low, high. A None among them draws no bar."""
    lengths = [
        (None, None) if value is None or low is None or high is None else (value - low, high - value)
        for value, low, high in intervals
    ]
    below, above = [length for length, _ in lengths], [length for _, length in lengths]
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "width": 0, **style}


def vertical_line(x: float, line: dict[str, Any]) -> dict[str, Any]:
    """Return a line across the height of a plot, behind its traces."""
    return {"type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": line, "layer": "below"}


def escape_text(text: str, max_length: int) -> str:
    """Escape and truncate a user's text for plotly, so that it contains no markup and no template."""
    shortened = text if len(text) <= max_length else f"{text[: max_length - 1]}…"
    return escape(shortened).replace("%{", "%&#123;")


def pick_evenly(items: Sequence[Item], max_items: int) -> list[Item]:
    """Return at most ``max_items`` items at equal steps, including the first and the last."""
    if len(items) <= max_items:
        return list(items)
    step = (len(items) - 1) / (max_items - 1)
    return [items[round(i * step)] for i in range(max_items)]


def _escape_formula(cell: Cell) -> Cell:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) else cell


TICK_DIGITS = ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 4, 5, 6, 7, 8, 9))
"""Leading digits that ticks may have. The first tuple with which ``MIN_TICKS`` fit is used."""
MIN_TICKS = 3
MAX_DECADES = 6
"""Maximum number of decades with a tick each. If there are more, every second or third decade has one."""
AXIS_MARGIN = 0.04
"""Fraction of the axis that stays free beyond each end."""

EQUAL_TOLERANCE, EQUAL_MARGIN = 1e-9, 0.2
"""Relative difference up to which values count as equal, and the relative margin around equal values."""

STEP_AXIS = {"title": {"text": "Optimizer step"}, "rangemode": "tozero"}


def linear_axis(
    title: str, values: Iterable[float | None], bounds: tuple[float, float] | None = None
) -> dict[str, Any]:
    """Return a linear axis. It has room around values that are equal up to rounding, which plotly would magnify.

    ``bounds`` are the minimum and the maximum that values can have. The axis extends only a little beyond them.
    """
    defined = [value for value in values if value is not None]
    low, high = min(defined, default=0.0), max(defined, default=0.0)
    axis: dict[str, Any] = {"title": {"text": title}}
    margin = EQUAL_MARGIN * (bounds[1] - bounds[0] if bounds else abs(low))
    room = AXIS_MARGIN * margin
    lowest, highest = (bounds[0] - room, bounds[1] + room) if bounds else (-inf, inf)
    axis |= clipped_axis(title, (lowest, highest)) if bounds else {}
    if margin and high <= low + EQUAL_TOLERANCE * max(abs(low), abs(high)):
        axis["range"] = [max(low - margin, lowest), min(low + margin, highest)]
    return axis


def clipped_axis(title: str, bounds: tuple[float, float]) -> dict[str, Any]:
    """Return an axis whose range stays within the bounds, even if error bars are longer. Infinity sets no bound."""
    ends = {name: end for name, end in zip(("clipmin", "clipmax"), bounds, strict=True) if isfinite(end)}
    return {"title": {"text": title}, "autorangeoptions": ends}


def log_axis(title: str, values: Iterable[float | None]) -> dict[str, Any]:
    """Return a logarithmic axis around the positive values, with our ticks: plotly's overlap below two decades."""
    positive = [value for value in values if value is not None and value > 0] or [1.0]
    low, high = log10(min(positive)), log10(max(positive))
    room = AXIS_MARGIN * (high - low) or 0.1
    ticks = log_ticks(10 ** (low - room), 10 ** (high + room))
    return {
        "type": "log",
        "title": {"text": title},
        "range": [low - room, high + room],
        "tickvals": ticks,
        "ticktext": [number(tick, 1) if tick == float(f"{tick:.0e}") else short(tick) for tick in ticks],
    }


def log_ticks(low: float, high: float) -> list[float]:
    """Return a few round numbers from low to high; equal steps if the range is narrow."""
    first, last = floor(log10(low)), ceil(log10(high))
    for digits in TICK_DIGITS:
        spacing = ceil((last - first) / MAX_DECADES) if digits == (1,) else 1
        candidates = (float(f"{digit}e{decade}") for decade in range(first, last + 1, spacing) for digit in digits)
        ticks = [tick for tick in candidates if low <= tick <= high]
        if len(ticks) >= MIN_TICKS:
            return ticks
    decade = 10.0 ** floor(log10(high - low))
    step = next(size for size in (decade, decade / 2, decade / 5) if round((high - low) / size, 9) >= MIN_TICKS)
    return [float(f"{i * step:.12g}") for i in range(ceil(low / step), floor(high / step) + 1)]
