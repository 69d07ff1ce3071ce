"""Measures by layer of an encoding: a heat map, and a line of one measure for each pooling."""

from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from textwrap import wrap
from typing import NamedTuple

import plotly.graph_objects as go

from app.db.models import Measurement, Pooling
from app.figures import palette
from app.figures.figure import Cell, Figure, FigureTable, clipped_axis, escape_text, plot
from isoscope.core.formatting import count, number, starred, with_se
from isotropy.catalog import Measure

# Characters that fit over a column on a wide page.
HEADING_CHARACTERS = 14
ISOTROPY_HINTS = {"more isotropic": "↑ isotropic", "less isotropic": "↓ isotropic", "neither": ""}
SHADES = len(palette.SCALE)
# Shade of a value that all layers share.
MIDDLE_SHADE = 0.5
POOLING_TITLES = {Pooling.FIRST: "first token", Pooling.MEAN: "mean", Pooling.LAST: "last token"}
POOLING_COLORS = dict(zip(Pooling, palette.SERIES, strict=False))


class HeatMapRow(NamedTuple):
    """A layer, the URL of its report, and its measurements by the slug of the measure."""

    layer: int
    href: str
    measurements: Mapping[str, Measurement]

    def value(self, measure: Measure) -> float | None:
        return self.measurements[measure.slug].value if measure.slug in self.measurements else None


def heat_map(rows: Sequence[HeatMapRow], measures: Sequence[Measure]) -> Figure:
    return Figure(
        slug="heat-map",
        title="Measures by layer",
        caption="Each column has its own shading, from its minimum (light) to its maximum (dark) over layers. Layer 0 "
        "is the embedding layer. ↑ isotropic: dark is most isotropic. ↓ isotropic: light is. Click a cell to open the "
        "report of its layer.",
        table=FigureTable(
            ["layer", "measure", "value", "se", "n", "reason"],
            [
                [row.layer, measure.slug, measurement.value, measurement.se, measurement.n, measurement.reason or ""]
                for row in rows
                for measure in measures
                if (measurement := row.measurements.get(measure.slug)) is not None
            ],
        ),
        draw=partial(_draw_heat_map, rows, measures),
        empty=None if rows else "The first layer appears here when it has been measured.",
        wide=True,
    )


def _draw_heat_map(rows: Sequence[HeatMapRow], measures: Sequence[Measure]) -> go.Figure:
    columns = [[row.value(measure) for row in rows] for measure in measures]
    shades: list[list[float | None]] = []
    for values in columns:
        defined = [value for value in values if value is not None]
        low, span = min(defined, default=0.0), max(defined, default=0.0) - min(defined, default=0.0)
        shades.append([None if value is None else (value - low) / span if span else MIDDLE_SHADE for value in values])
    cells = go.Heatmap(
        x=list(range(len(measures))),
        y=list(range(len(rows))),
        z=[list(row) for row in zip(*shades, strict=True)],
        zmin=0,
        zmax=1,
        colorscale=[[edge, color] for i, color in enumerate(palette.SCALE) for edge in (i / SHADES, (i + 1) / SHADES)],
        showscale=False,
        xgap=2,
        ygap=2,
        text=[["–" if value is None else number(value) for value in row] for row in zip(*columns, strict=True)],
        texttemplate="%{text}",
        hovertext=[[_write_hover_text(row, measure) for measure in measures] for row in rows],
        hoverinfo="text",
        customdata=[[{"href": row.href} for _ in measures] for row in rows],
    )
    headings = []
    for measure in measures:
        lines = wrap(starred(measure.name), HEADING_CHARACTERS, break_long_words=False, break_on_hyphens=False)
        headings.append("<br>".join(filter(None, [*map(escape, lines), ISOTROPY_HINTS[measure.higher_means]])))
    no_lines = {"showline": False, "ticks": "", "showgrid": False}
    return plot(
        [cells],
        xaxis={"side": "top", "tickvals": list(range(len(measures))),
               "ticktext": headings, **no_lines},
        yaxis={"title": {"text": "Layer"}, "tickvals": list(range(len(rows))),
               "ticktext": [str(row.layer) for row in rows], "autorange": "reversed", **no_lines},
    )  # fmt: skip


def _write_hover_text(row: HeatMapRow, measure: Measure) -> str:
    heading = f"layer {row.layer}, {starred(measure.name)}"
    measurement = row.measurements.get(measure.slug)
    if measurement is None:
        return f"{heading}<br>not measured"
    if measurement.value is None:
        return f"{heading}<br>undefined: {escape_text(measurement.reason or '', 120)}"
    return f"{heading}<br>{with_se(measurement.value, measurement.se)}, n = {count(measurement.n)}"


class LayerPoint(NamedTuple):
    """A measurement at a layer."""

    layer: int
    measurement: Measurement


def measure_by_layer(measure: Measure, lines: Mapping[Pooling, Sequence[LayerPoint]]) -> Figure:
    rows: list[list[Cell]] = [
        [pooling.value, layer, measurement.value, measurement.se, measurement.n, measurement.reason]
        for pooling, points in lines.items()
        for layer, measurement in points
    ]
    measurements = [point.measurement for points in lines.values() for point in points]
    has_errors = any(measurement.se is not None for measurement in measurements)
    has_values = any(measurement.value is not None for measurement in measurements)
    first_undefined = [next((point for point in points if point.measurement.reason), None) for points in lines.values()]
    return Figure(
        slug="by-layer",
        title=f"{starred(measure.name)} by layer",
        caption=f"Range: {measure.range}. Layer 0 is the embedding layer."
        + (" Bars are one standard error each way." if has_errors else "")
        + "".join(
            f" Undefined at layer {point.layer}, {POOLING_TITLES[pooling]}: {point.measurement.reason}"
            for pooling, point in zip(lines, first_undefined, strict=True)
            if point
        ),
        table=FigureTable(["pooling", "layer", measure.slug, "se", "n", "reason"], rows),
        draw=partial(_draw_layers, measure, lines),
        empty=None if has_values else "No layer has a value of this measure yet.",
    )


def _draw_layers(measure: Measure, lines: Mapping[Pooling, Sequence[LayerPoint]]) -> go.Figure:
    title = f"{starred(measure.name)}{f', {measure.value}' if measure.value else ''}"
    last_layer = max((point.layer for points in lines.values() for point in points), default=0)
    traces = [
        go.Scatter(
            x=[point.layer for point in points],
            y=[point.measurement.value for point in points],
            error_y={
                "array": [point.measurement.se for point in points],
                "color": POOLING_COLORS[pooling],
                "thickness": 0.9,
            },
            mode="lines+markers",
            name=POOLING_TITLES[pooling],
            line={"color": POOLING_COLORS[pooling], "width": 2},
            marker={"color": POOLING_COLORS[pooling], "size": 7},
            hovertemplate="%{fullData.name}<br>layer %{x}: %{y:.4~g}<extra></extra>",
        )
        for pooling, points in lines.items()
    ]
    return plot(
        traces,
        xaxis={"title": {"text": "Layer"}, "dtick": max(1, -(-last_layer // 12))},  # about twelve ticks
        yaxis=clipped_axis(title, measure.widest_bounds),
        showlegend=len(lines) > 1,
    )
