"""Measures by layer of an encoding: as a heat map, and one measure as lines by pooling."""

from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from textwrap import wrap
from typing import NamedTuple

import plotly.graph_objects as go

from app.db.models import Measurement, Pooling
from app.embeddings.figures.overlay import Subject
from app.figures import palette
from app.figures.figure import Cell, Figure, Table, plain, plot
from isoscope.core.formatting import count, number, starred
from isotropy.catalog import MEASURES, Measure

LONGEST_LINE = 14
"""Characters of a line of a column's heading: as many as fit over a column where the page is wide."""
ISOTROPIC_END = {"more isotropic": "↑ isotropic", "less isotropic": "↓ isotropic", "neither": ""}
STEPS = len(palette.SCALE)
MIDDLE = 0.5
"""Place in its column of a value that all layers share."""


class Row(NamedTuple):
    """A layer, and where its report is."""

    layer: int
    href: str
    subject: Subject


def heat_map(rows: Sequence[Row], measures: Sequence[str]) -> Figure:
    """Measures, by their slugs, of the layers in this order; each is shaded from its least to its greatest value."""
    return Figure(
        slug="heat-map",
        title="Measures by layer",
        caption="Each column has its own shading, from its minimum (light) to its maximum (dark) over layers. Layer 0 "
        "is the embedding layer. ↑ isotropic: dark is most isotropic. ↓ isotropic: light is. Click a cell to open the "
        "report of its layer.",
        table=Table(
            ["layer", "measure", "value", "se", "n", "reason"],
            [
                [row.layer, slug, found.value, found.se, found.n, found.reason or ""]
                for row in rows
                for slug in measures
                if (found := row.subject.found.get(slug)) is not None
            ],
        ),
        draw=partial(_draw_heat_map, rows, measures),
        empty=None if rows else "The first layer appears here when it has been measured.",
        wide=True,
    )


def _value(subject: Subject, measure: str) -> float | None:
    found = subject.found.get(measure)
    return found.value if found is not None else None


def _draw_heat_map(rows: Sequence[Row], measures: Sequence[str]) -> go.Figure:
    columns = [_places([_value(row.subject, measure) for row in rows]) for measure in measures]
    values = [[_value(row.subject, measure) for measure in measures] for row in rows]
    cells = go.Heatmap(
        x=list(range(len(measures))),
        y=list(range(len(rows))),
        z=[list(row) for row in zip(*columns, strict=True)],
        zmin=0,
        zmax=1,
        colorscale=[
            [place, colour] for i, colour in enumerate(palette.SCALE) for place in (i / STEPS, (i + 1) / STEPS)
        ],
        showscale=False,
        xgap=2,
        ygap=2,
        text=[["–" if value is None else number(value) for value in row] for row in values],
        texttemplate="%{text}",
        hovertext=[[_words(row, measure) for measure in measures] for row in rows],
        hoverinfo="text",
        customdata=[[{"href": row.href} for _ in measures] for row in rows],
    )
    bare = {"showline": False, "ticks": "", "showgrid": False}
    return plot(
        [cells],
        xaxis={"side": "top", "tickvals": list(range(len(measures))),
               "ticktext": [_heading(measure) for measure in measures], **bare},
        yaxis={"title": {"text": "Layer"}, "tickvals": list(range(len(rows))),
               "ticktext": [str(row.layer) for row in rows], "autorange": "reversed", **bare},
    )  # fmt: skip


def _places(values: Sequence[float | None]) -> list[float | None]:
    """Where each value lies between the least and the greatest, from 0 to 1."""
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    if low == high:
        return [None if value is None else MIDDLE for value in values]
    return [None if value is None else (value - low) / (high - low) for value in values]


def _name(measure: str) -> str:
    known = MEASURES.get(measure)
    return starred(known.name) if known else measure


def _heading(measure: str) -> str:
    """The name in short lines, and which end of the column is isotropic."""
    known = MEASURES.get(measure)
    end = ISOTROPIC_END[known.higher_means] if known else ""
    lines = wrap(_name(measure), LONGEST_LINE, break_long_words=False, break_on_hyphens=False)
    return "<br>".join([*(escape(line) for line in lines), *([end] if end else [])])


def _words(row: Row, measure: str) -> str:
    found = row.subject.found.get(measure)
    head = f"layer {row.layer}, {_name(measure)}"
    if found is None:
        return f"{head}<br>not measured"
    if found.value is None:
        return f"{head}<br>undefined: {plain(found.reason or '', 120)}"
    error = f" ± {number(found.se, 2)}" if found.se is not None else ""
    return f"{head}<br>{number(found.value)}{error}, n = {count(found.n)}"


POOLING_TITLES = {Pooling.FIRST: "first token", Pooling.MEAN: "mean", Pooling.LAST: "last token"}
COLOURS = dict(zip(Pooling, palette.SERIES, strict=False))


class LayerPoint(NamedTuple):
    """A measure at a layer."""

    layer: int
    found: Measurement


def by_layer(measure: Measure, lines: Mapping[Pooling, Sequence[LayerPoint]]) -> Figure:
    """The values of ``measure`` by layer with a standard error to either side, where one is known."""
    rows: list[list[Cell]] = [
        [pooling.value, point.layer, point.found.value, point.found.se, point.found.n, point.found.reason]
        for pooling, points in lines.items()
        for point in points
    ]
    has_errors = any(row[3] is not None for row in rows)
    return Figure(
        slug="by-layer",
        title=f"{starred(measure.name)} by layer",
        caption=f"Range: {measure.range}. Layer 0 is the embedding layer."
        + (" Bars are ± one standard error." if has_errors else "")
        + "".join(
            f" Undefined at layer {point.layer}, {POOLING_TITLES[pooling]}: {point.found.reason}"
            for pooling, points in lines.items()
            for point in [each for each in points if each.found.reason][:1]
        ),
        table=Table(["pooling", "layer", measure.slug, "se", "n", "reason"], rows),
        draw=partial(_draw_layers, measure, lines),
        empty=None if any(row[2] is not None for row in rows) else "No layer has a value of this measure yet.",
    )


def _draw_layers(measure: Measure, lines: Mapping[Pooling, Sequence[LayerPoint]]) -> go.Figure:
    title = f"{starred(measure.name)}{f', {measure.value}' if measure.value else ''}"
    return plot(
        [_line(pooling, points) for pooling, points in lines.items()],
        xaxis={"title": {"text": "Layer"}, "dtick": _step(lines)},
        yaxis={"title": {"text": title}},
        showlegend=len(lines) > 1,
    )


def _line(pooling: Pooling, points: Sequence[LayerPoint]) -> go.Scatter:
    colour = COLOURS[pooling]
    return go.Scatter(
        x=[point.layer for point in points],
        y=[point.found.value for point in points],
        error_y={"array": [point.found.se for point in points], "color": colour, "thickness": 0.9},
        mode="lines+markers",
        name=POOLING_TITLES[pooling],
        line={"color": colour, "width": 2},
        marker={"color": colour, "size": 7},
        hovertemplate="%{fullData.name}<br>layer %{x}: %{y:.4~g}<extra></extra>",
    )


def _step(lines: Mapping[Pooling, Sequence[LayerPoint]]) -> int:
    """Layers between two ticks, about twelve in all."""
    last = max((point.layer for points in lines.values() for point in points), default=0)
    return max(1, -(-last // 12))
