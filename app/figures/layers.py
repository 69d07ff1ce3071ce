"""One measure from layer to layer of a model, a line for each pooling."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import plotly.graph_objects as go

from app.db.models import Measurement, Pooling
from app.figures import palette
from app.figures.figure import Cell, Figure, Table, plot
from isoscope.core.formatting import starred
from isotropy.catalog import Measure

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
        draw=partial(_draw, measure, lines),
        empty=None if any(row[2] is not None for row in rows) else "No layer has a value of this measure yet.",
    )


def _draw(measure: Measure, lines: Mapping[Pooling, Sequence[LayerPoint]]) -> go.Figure:
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
        error_y={"array": [point.found.se for point in points], "color": palette.faded(colour, 0.6), "thickness": 1.4},
        mode="lines+markers",
        name=POOLING_TITLES[pooling],
        line={"color": colour, "width": 2},
        marker={"color": colour, "size": 7},
        hovertemplate="layer %{x}: %{y:.4~g}<extra>%{fullData.name}</extra>",
    )


def _step(lines: Mapping[Pooling, Sequence[LayerPoint]]) -> int:
    """Layers between two ticks, about twelve in all."""
    last = max((point.layer for points in lines.values() for point in points), default=0)
    return max(1, -(-last // 12))
