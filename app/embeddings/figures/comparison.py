"""Figures of embeddings in order: a measure over steps, the similarity of steps, and how far rows moved."""

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import NamedTuple

import plotly.graph_objects as go

from app.embeddings.alignments import AlignedPair, MovedRows
from app.embeddings.comparison import ComparedMeasure, EmbeddingComparison
from app.figures import palette
from app.figures.figure import (
    Cell,
    Figure,
    FigureTable,
    clipped_axis,
    escape_text,
    interval_bars,
    linear_axis,
    pick_evenly,
    plot,
)
from isoscope.core.formatting import number, plural, starred
from isotropy.catalog import ALIGNMENTS

MAX_TICKS = 13
LONGEST_NAME = 40  # Characters
FROM_PREVIOUS, FROM_FIRST = "from the step before", "from the first"
TO_PREVIOUS, TO_FIRST = "to the step before", "to the first"
LINE_OFFSET = 0.08  # Distance in steps between the two lines of a figure, so that their bars stand side by side
COLUMN_SUFFIXES = ("", ", low", ", high", ", note")
BINS = 30
N_NEIGHBORS = 10


class StepPoint(NamedTuple):
    """A value at a step, the ends of its error bar (None where undefined), and why there is no value or bar."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""


class StepLine(NamedTuple):
    """A line through the values of all steps."""

    name: str
    color: str
    points: list[StepPoint]


def step_figures(comparison: EmbeddingComparison, compared: ComparedMeasure) -> list[Figure]:
    """Return the figures of a measure and of its changes over the steps."""
    measure, name = compared.measure, starred(compared.measure.name)
    rows: list[list[Cell]] = []
    line = StepLine(name, palette.MAIN, [])
    steps = zip(comparison.labels, comparison.names, compared.measurements, strict=True)
    for label, embedding_name, measurement in steps:
        value, se, n = (measurement.value, measurement.se, measurement.n) if measurement else (None, None, None)
        if measurement is None or value is None:
            point = StepPoint(reason=(measurement and measurement.reason) or "not measured")
        elif measurement.low is not None or se is None:
            point = StepPoint(value, measurement.low, measurement.high)
        else:
            point = StepPoint(value, value - se, value + se)
        line.points.append(point)
        rows.append([label, embedding_name, value, se, point.low, point.high, n, point.reason])
    bars = " Bars are 95% intervals." if measure.error == "population" else " Bars are one standard error each way."
    columns = [comparison.axis.lower(), "embedding", measure.slug, "se", "low", "high", "n", "reason"]
    values_figure = Figure(
        slug="over-steps",
        title=f"{name} over the {comparison.axis.lower()}s",
        caption=f"Range: {measure.range}.{bars if any(point.low is not None for point in line.points) else ''}",
        table=FigureTable(columns, rows),
        draw=partial(_draw_lines, comparison, [line], name, measure.widest_bounds),
        empty=None if _has_values([line]) else "No step has a value of this measure.",
    )
    return [values_figure, _changes_figure(comparison, compared)]


def _changes_figure(comparison: EmbeddingComparison, compared: ComparedMeasure) -> Figure:
    name = starred(compared.measure.name)
    lines = [
        StepLine(
            title,
            color,
            [StepPoint(item.value, item.low, item.high, item.reason) if item else StepPoint() for item in differences],
        )
        for title, color, differences in (
            (FROM_PREVIOUS, palette.MAIN, compared.changes),
            (FROM_FIRST, palette.SECOND, compared.differences),
        )
    ]
    return Figure(
        slug="changes",
        title=f"Changes of {name}",
        caption="Bars are 95% intervals, paired by row where both steps hold the same rows. Changes of neighboring "
        "steps share a step, so they are not independent.",
        table=_tabulate_lines(comparison, lines),
        draw=partial(_draw_lines, comparison, lines, f"change of {name}", include_zero=True),
        empty=None if _has_values(lines) else "There is no change.",
    )


def similarity_figures(comparison: EmbeddingComparison, steps: Sequence[Sequence[AlignedPair | None]]) -> list[Figure]:
    """Return a figure of each alignment measure, of every step with the previous and with the first."""
    figures = []
    for entry in ALIGNMENTS.values():
        # The first step has no earlier step to compare with.
        lines = [StepLine(TO_PREVIOUS, palette.MAIN, [StepPoint()]), StepLine(TO_FIRST, palette.SECOND, [StepPoint()])]
        for line, pairs in zip(lines, steps, strict=True):
            for pair in pairs:
                values = pair.values if pair else ()
                value = next((value for value in values if value.measure.slug == entry.slug), None)
                point = StepPoint(reason="no rows in common")
                if value is not None:
                    point = StepPoint(value.value, value.low, value.high, value.reason or "")
                line.points.append(point)
        figures.append(
            Figure(
                slug=entry.slug.replace("_", "-"),
                title=entry.name,
                caption=f"{entry.meaning} Range: {entry.range}. Bars are 95% intervals.",
                table=_tabulate_lines(comparison, lines),
                draw=partial(_draw_lines, comparison, lines, entry.name),
                empty=None if _has_values(lines) else "No two steps have a value of this measure.",
            )
        )
    return figures


def _has_values(lines: Sequence[StepLine]) -> bool:
    return any(point.value is not None for line in lines for point in line.points)


def _tabulate_lines(comparison: EmbeddingComparison, lines: Sequence[StepLine]) -> FigureTable:
    columns = [
        comparison.axis.lower(),
        "embedding",
        *(f"{line.name}{suffix}" for line in lines for suffix in COLUMN_SUFFIXES),
    ]
    rows: list[list[Cell]] = [
        [label, name, *(cell for line in lines for cell in line.points[step])]
        for step, (label, name) in enumerate(zip(comparison.labels, comparison.names, strict=True))
    ]
    return FigureTable(columns, rows)


def _draw_lines(
    comparison: EmbeddingComparison,
    lines: Sequence[StepLine],
    title: str,
    bounds: tuple[float, float] = (-inf, inf),
    *,
    include_zero: bool = False,
) -> go.Figure:
    ticks = pick_evenly(range(len(comparison.names)), MAX_TICKS)
    axis_values = [value for line in lines for point in line.points for value in point[:3]]
    labels = comparison.labels
    traces = []
    for i, line in enumerate(lines):
        intervals = [(point.value, point.low, point.high) for point in line.points]
        trace = go.Scatter(
            x=[step + LINE_OFFSET * (i - (len(lines) - 1) / 2) for step in range(len(line.points))],
            y=[point.value for point in line.points],
            mode="lines+markers",
            name=line.name,
            line={"color": line.color, "width": 2},
            marker={"color": line.color, "size": 7},
            error_y=interval_bars(intervals, color=line.color, thickness=0.9),
            hovertext=[
                f"{escape_text(name, LONGEST_NAME)}<br>{line.name}: {number(point.value)}"
                + (f" [{number(point.low)}, {number(point.high)}]" if point.low is not None else "")
                for name, point in zip(comparison.names, line.points, strict=True)
            ],
            hovertemplate="%{hovertext}<extra></extra>",
        )
        traces.append(trace)
    axis = linear_axis(title, [*axis_values, *([0.0] if include_zero else [])])
    return plot(
        traces,
        xaxis={"title": {"text": comparison.axis}, "tickvals": ticks, "ticktext": [labels[tick] for tick in ticks]},
        yaxis=clipped_axis(title, bounds) | axis | {"zeroline": include_zero},
        showlegend=len(lines) > 1,
    )


def moved_figures(moved: MovedRows) -> list[Figure]:
    """Return histograms of neighbors kept and, if computed, of residuals; none before rows are compared."""
    if not moved.rows:
        return []
    row_counts = [0] * (N_NEIGHBORS + 1)  # by number of neighbors kept
    for row in moved.rows:
        row_counts[round(N_NEIGHBORS * row.neighbors_kept)] += 1
    neighbors_kept = [float(neighbors) for neighbors in range(N_NEIGHBORS + 1)]
    neighbors_figure = Figure(
        slug="kept",
        title="Neighbors kept",
        caption=f"How many of a row's {N_NEIGHBORS} nearest by cosine, among {plural(moved.references, 'row')}, are "
        "the same in both. Rows on the left moved most.",
        table=FigureTable(
            ["neighbors kept", "rows"], [list(pair) for pair in zip(neighbors_kept, row_counts, strict=True)]
        ),
        draw=partial(_draw_histogram, neighbors_kept, row_counts, 1.0, "Neighbors kept"),
    )
    if not moved.has_residuals:
        return [neighbors_figure]
    values = [row.residual or 0.0 for row in moved.rows]
    width = (max(values) or 1.0) / BINS
    counts = [0] * BINS
    for value in values:
        counts[min(int(value / width), BINS - 1)] += 1
    residuals_figure = Figure(
        slug="residuals",
        title="Distance moved",
        caption="After the best rotation of one embedding onto the other, in typical row lengths: 0 stays, about 1.4 "
        "lands anywhere. Rows on the right moved most.",
        table=FigureTable(
            ["from", "to", "rows"], [[i * width, (i + 1) * width, count] for i, count in enumerate(counts)]
        ),
        draw=partial(_draw_histogram, [(i + 0.5) * width for i in range(BINS)], counts, width, "Distance"),
    )
    return [neighbors_figure, residuals_figure]


def _draw_histogram(centers: list[float], counts: list[int], width: float, title: str) -> go.Figure:
    bars = go.Bar(
        x=centers,
        y=counts,
        width=width,
        marker={"color": palette.MAIN},
        hovertemplate="%{x:.3~g}: %{y:,} rows<extra></extra>",
    )
    return plot([bars], bargap=0, xaxis={"title": {"text": title}}, yaxis={"title": {"text": "Rows"}})
