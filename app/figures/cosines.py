"""Cosines of pairs of rows."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go

from app.figures import palette
from app.figures.figure import Figure, Table, plot
from app.numerals import count, number


def cosines(histogram: dict[str, Any], mean: float | None, rows: int) -> Figure:
    """Histogram of the cosine of pairs of rows, with the exact mean over all pairs of ``rows``."""
    edges, counts = histogram["edges"], histogram["counts"]
    shown = histogram["rows"]
    sample = (
        f"all pairs of {count(rows)} rows" if shown == rows else f"pairs of {count(shown)} rows drawn of {count(rows)}"
    )
    return Figure(
        slug="cosines",
        title="Cosines of pairs",
        caption=f"Cosine of two different rows: {sample}. The line is the exact mean over all pairs, {number(mean)}.",
        table=Table(
            ["cosine_from", "cosine_to", "pairs"],
            [[edges[i], edges[i + 1], pairs] for i, pairs in enumerate(counts)],
        ),
        draw=partial(_draw_cosines, edges, counts, mean),
        empty=None if any(counts) else "There is no pair of rows that both have a direction.",
    )


def _draw_cosines(edges: Sequence[float], counts: Sequence[int], mean: float | None) -> go.Figure:
    filled = [i for i, pairs in enumerate(counts) if pairs]
    bars = go.Bar(
        x=[(a + b) / 2 for a, b in pairwise(edges)],
        y=list(counts),
        width=[b - a for a, b in pairwise(edges)],
        marker={"color": palette.faded(palette.MAIN, 0.75), "line": {"width": 0}},
        hovertemplate="cosine %{x:.2f}: %{y:,} pairs<extra></extra>",
    )
    line = {"type": "line", "x0": mean, "x1": mean, "yref": "paper", "y0": 0, "y1": 1,
            "line": {"color": palette.MARKED, "width": 1.5}}  # fmt: skip
    note = {"x": mean, "y": 1, "yref": "paper", "yanchor": "bottom", "showarrow": False,
            "text": f"mean {number(mean)}"}  # fmt: skip
    return plot(
        [bars],
        shapes=[line] if mean is not None else [],
        annotations=[note] if mean is not None else [],
        xaxis={"title": {"text": "Cosine"}, "range": [edges[filled[0]] - 0.02, edges[filled[-1] + 1] + 0.02]},
        yaxis={"title": {"text": "Pairs of rows"}},
    )
