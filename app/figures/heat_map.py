"""Measures of several layers as one picture."""

from collections.abc import Sequence
from functools import partial

import plotly.graph_objects as go

from app.figures.figure import Cell, Figure, Table, plot
from app.figures.subject import Subject
from isotropy.catalog import MEASURES


def heat_map(layers: Sequence[tuple[int, str, Subject]], measures: Sequence[str]) -> Figure:
    """Each measure by layer, coloured from its least to its greatest value; a cell leads to its layer's report."""
    rows: list[list[Cell]] = [[layer, *(_value(subject, slug) for slug in measures)] for layer, _, subject in layers]
    return Figure(
        slug="heat-map",
        title="Measures by layer",
        caption="Each column is coloured from its least to its greatest value; layer 0 is the embedding layer.",
        table=Table(["layer", *measures], rows),
        draw=partial(_draw, layers, measures),
        empty=None if layers else "No layer has been measured yet.",
    )


def _value(subject: Subject, slug: str) -> float | None:
    found = subject.found.get(slug)
    return None if found is None else found.value


def _draw(layers: Sequence[tuple[int, str, Subject]], measures: Sequence[str]) -> go.Figure:
    values = [[_value(subject, slug) for slug in measures] for _, _, subject in layers]
    columns = list(zip(*values, strict=True))
    shades = [[_shade(value, columns[j]) for j, value in enumerate(row)] for row in values]
    cells = go.Heatmap(
        z=shades,
        x=[MEASURES[slug].name for slug in measures],
        y=[str(layer) for layer, _, _ in layers],
        customdata=[[href] * len(measures) for _, href, _ in layers],
        colorscale="Teal",
        showscale=False,
        xgap=2,
        ygap=2,
    )
    return plot([cells], yaxis={"title": {"text": "Layer"}, "type": "category"})


def _shade(value: float | None, column: Sequence[float | None]) -> float | None:
    known = [one for one in column if one is not None]
    if value is None:
        return None
    low, high = min(known), max(known)
    return 0.5 if low == high else (value - low) / (high - low)
