"""Figures of rows that moved between two embeddings: the neighbors that rows keep, and the distances they moved."""

from functools import partial

import plotly.graph_objects as go

from app.embeddings.alignments import MovedRows
from app.figures import palette
from app.figures.figure import Figure, Table, plot
from isoscope.core.formatting import plural

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
        draw=partial(_bars, places, counts, 1.0, "Neighbors kept"),
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
        draw=partial(_bars, middles, counts, width, "Distance"),
    )


def _bars(places: list[float], counts: list[int], width: float, title: str) -> go.Figure:
    bars = go.Bar(
        x=places,
        y=counts,
        width=width,
        marker={"color": palette.MAIN},
        hovertemplate="%{x:.3~g}: %{y:,} rows<extra></extra>",
    )
    return plot([bars], bargap=0, xaxis={"title": {"text": title}}, yaxis={"title": {"text": "Rows"}})
