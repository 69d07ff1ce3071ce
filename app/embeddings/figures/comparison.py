"""Figures of embeddings side by side: a series over its steps, how alike steps are, which rows moved between two.

A measure of a series, its changes and what steps have in common are lines with 95% intervals. Of two embeddings, the
neighbors that rows keep and the distances that they moved are histograms.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import plotly.graph_objects as go

from app.db.models import Measurement
from app.embeddings.alignments import Aligned, MovedRows
from app.embeddings.comparison import Difference
from app.embeddings.series import Series, SeriesMeasure, Similar
from app.figures import palette
from app.figures.figure import Cell, Figure, Table, linear_axis, plain, plot, thinned
from isoscope.core.formatting import number, plural, starred
from isotropy.catalog import ALIGNMENTS, AlignmentEntry

MOST_TICKS = 13
LONGEST_NAME = 40
FROM_PREVIOUS, FROM_FIRST = "from the step before", "from the first"
TO_PREVIOUS, TO_FIRST = "to the step before", "to the first"
OFFSET = 0.08
"""Of a step, between the two lines of one figure, so that their bars stand side by side."""


class Point(NamedTuple):
    """A number at a step and the ends of its bar; None where there is none."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""


class Line(NamedTuple):
    """The numbers of all steps."""

    name: str
    colour: str
    points: list[Point]


def series_figures(series: Series, measure: SeriesMeasure) -> list[Figure]:
    """Return a measure over the steps, and its changes."""
    return [_values(series, measure), _changes(series, measure)]


def _values(series: Series, measure: SeriesMeasure) -> Figure:
    name = starred(measure.measure.name)
    line = Line(name, palette.MAIN, [_point(step.found) for step in measure.steps])
    population = measure.measure.error == "population"
    has_bars = any(one.low is not None for one in line.points)
    bars = " Bars are 95% intervals." if population else " Bars are ± one standard error."
    found = [step.found for step in measure.steps]
    rows: list[list[Cell]] = [
        [
            label,
            each,
            own.value if own else None,
            own.se if own else None,
            one.low,
            one.high,
            own.n if own else None,
            one.reason,
        ]
        for label, each, own, one in zip(series.labels, series.names, found, line.points, strict=True)
    ]
    columns = [series.axis.lower(), "embedding", measure.measure.slug, "se", "low", "high", "n", "reason"]
    return Figure(
        slug="over-steps",
        title=f"{name} over the {series.axis.lower()}s",
        caption=f"Range: {measure.measure.range}.{bars if has_bars else ''}",
        table=Table(columns, rows),
        draw=partial(_draw, series, [line], name),
        empty=None if any(one.value is not None for one in line.points) else "No step has a value of this measure.",
    )


def _point(found: Measurement | None) -> Point:
    if found is None or found.value is None:
        return Point(reason=(found and found.reason) or "not measured")
    if found.low is not None:
        return Point(found.value, found.low, found.high)
    if found.se is None:
        return Point(found.value)
    return Point(found.value, found.value - found.se, found.value + found.se)


def _changes(series: Series, measure: SeriesMeasure) -> Figure:
    name = starred(measure.measure.name)
    lines = [
        Line(FROM_PREVIOUS, palette.MAIN, [_change(step.from_previous) for step in measure.steps]),
        Line(FROM_FIRST, palette.OTHER, [_change(step.from_first) for step in measure.steps]),
    ]
    return Figure(
        slug="changes",
        title=f"Changes of {name}",
        caption="Bars are 95% intervals, paired by row where both steps hold the same rows. Changes of neighboring "
        "steps share a step, so they are not independent.",
        table=_table(series, lines),
        draw=partial(_draw, series, lines, f"change of {name}", zero=True),
        empty=None if any(one.value is not None for line in lines for one in line.points) else "There is no change.",
    )


def _change(one: Difference | None) -> Point:
    return Point() if one is None else Point(one.value, one.low, one.high, one.reason)


def similarity_figures(series: Series, similar: Similar) -> list[Figure]:
    """Return how alike each step is to the one before and to the first, a figure for each measure."""
    return [_similarity(series, similar, entry) for entry in ALIGNMENTS.values()]


def _similarity(series: Series, similar: Similar, entry: AlignmentEntry) -> Figure:
    lines = [
        Line(TO_PREVIOUS, palette.MAIN, [Point(), *(_aligned(one, entry) for one in similar.to_previous)]),
        Line(TO_FIRST, palette.OTHER, [Point(), *(_aligned(one, entry) for one in similar.to_first)]),
    ]
    known = any(one.value is not None for line in lines for one in line.points)
    return Figure(
        slug=entry.slug.replace("_", "-"),
        title=entry.name,
        caption=f"{entry.meaning} Range: {entry.range}. Bars are 95% intervals.",
        table=_table(series, lines),
        draw=partial(_draw, series, lines, entry.name),
        empty=None if known else "No two steps have a value of this measure.",
    )


def _aligned(one: Aligned | None, entry: AlignmentEntry) -> Point:
    found = one and one.value(entry.slug)
    return Point(found.value, found.low, found.high, found.reason or "") if found else Point(reason="no rows in common")


def _table(series: Series, lines: Sequence[Line]) -> Table:
    columns = [series.axis.lower(), "embedding", *(f"{line.name}{end}" for line in lines for end in ENDS)]
    rows: list[list[Cell]] = [
        [label, name, *(cell for line in lines for cell in line.points[at])]
        for at, (label, name) in enumerate(zip(series.labels, series.names, strict=True))
    ]
    return Table(columns, rows)


ENDS = ("", ", low", ", high", ", note")


def _draw(series: Series, lines: Sequence[Line], title: str, *, zero: bool = False) -> go.Figure:
    steps = list(range(len(series.names)))
    ticks = thinned(steps, MOST_TICKS)
    ends = [end for line in lines for one in line.points for end in one[:3]]
    axis = linear_axis(title, [*ends, *([0.0] if zero else [])])
    return plot(
        [_trace(series, line, OFFSET * (place - (len(lines) - 1) / 2)) for place, line in enumerate(lines)],
        xaxis={"title": {"text": series.axis}, "tickvals": ticks, "ticktext": [series.labels[one] for one in ticks]},
        yaxis={**axis, "zeroline": zero},
        showlegend=len(lines) > 1,
    )


def _trace(series: Series, line: Line, offset: float) -> go.Scatter:
    high, low = (
        [
            None if end is None or one.value is None else abs(end - one.value)
            for one, end in zip(line.points, ends, strict=True)
        ]
        for ends in ([one.high for one in line.points], [one.low for one in line.points])
    )
    return go.Scatter(
        x=[place + offset for place in range(len(line.points))],
        y=[one.value for one in line.points],
        mode="lines+markers",
        name=line.name,
        line={"color": line.colour, "width": 2},
        marker={"color": line.colour, "size": 7},
        error_y={"type": "data", "symmetric": False, "array": high, "arrayminus": low, "color": line.colour,
                 "thickness": 0.9, "width": 0},
        hovertext=[_words(name, line, one) for name, one in zip(series.names, line.points, strict=True)],
        hovertemplate="%{hovertext}<extra></extra>",
    )  # fmt: skip


def _words(name: str, line: Line, one: Point) -> str:
    between = f" [{number(one.low)}, {number(one.high)}]" if one.low is not None else ""
    return f"{plain(name, LONGEST_NAME)}<br>{line.name}: {number(one.value)}{between}"


BINS = 30
NEIGHBORS = 10


def moved_figures(moved: MovedRows) -> list[Figure]:
    """Return histograms of the neighbors that rows keep and of their residuals."""
    if not moved.rows:
        return []
    return [_kept(moved), *([_residuals(moved)] if moved.has_residuals else [])]


def _kept(moved: MovedRows) -> Figure:
    counts = [0] * (NEIGHBORS + 1)
    for one in moved.rows:
        counts[round(NEIGHBORS * one.neighbors_kept)] += 1
    places = [float(one) for one in range(NEIGHBORS + 1)]
    return Figure(
        slug="kept",
        title="Neighbors kept",
        caption=f"How many of a row's {NEIGHBORS} nearest by cosine, among {plural(moved.references, 'row')}, are the "
        "same in both. Rows on the left moved most.",
        table=Table(["neighbors kept", "rows"], [[at, count] for at, count in zip(places, counts, strict=True)]),
        draw=partial(_histogram, places, counts, 1.0, "Neighbors kept"),
    )


def _residuals(moved: MovedRows) -> Figure:
    values = [one.residual or 0.0 for one in moved.rows]
    width = (max(values) or 1.0) / BINS
    counts = [0] * BINS
    for value in values:
        counts[min(int(value / width), BINS - 1)] += 1
    middles = [(at + 0.5) * width for at in range(BINS)]
    return Figure(
        slug="residuals",
        title="Distance to the other place",
        caption="After the best rotation of one embedding onto the other, in typical row lengths: 0 stays, about 1.4 "
        "lands anywhere. Rows on the right moved most.",
        table=Table(["from", "to", "rows"], [[at * width, (at + 1) * width, count] for at, count in enumerate(counts)]),
        draw=partial(_histogram, middles, counts, width, "Distance"),
    )


def _histogram(places: list[float], counts: list[int], width: float, title: str) -> go.Figure:
    bars = go.Bar(
        x=places,
        y=counts,
        width=width,
        marker={"color": palette.MAIN},
        hovertemplate="%{x:.3~g}: %{y:,} rows<extra></extra>",
    )
    return plot([bars], bargap=0, xaxis={"title": {"text": title}}, yaxis={"title": {"text": "Rows"}})
