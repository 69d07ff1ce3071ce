"""Cosines of pairs of rows, raw and centered."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import plotly.graph_objects as go

from app.embeddings.figures.overlay import Overlay, Series
from app.figures import palette
from app.figures.figure import Figure, plot, vertical_line
from isoscope.core.formatting import count, number

HISTOGRAM = "cosine_histogram"


class CosineHistogram(NamedTuple):
    """A histogram of the cosines of pairs, and their mean, which a line marks unless it is None."""

    name: str
    color: str
    legend: str
    edges: Sequence[float]
    counts: Sequence[int]
    mean: float | None


def cosines(overlay: Overlay) -> Figure:
    has_centered = not overlay.several and bool(overlay.series[0].detail(HISTOGRAM).get("centred"))
    line_note = "The line is the exact mean over all pairs"
    if has_centered:
        line_note = (
            "Raw, and centered by subtracting the mean row. Lines: the mean over all pairs (raw) and over the sampled "
            "pairs (centered)"
        )

    def describe_pairs(series: Series) -> str:
        n_sampled, n_rows = series.detail(HISTOGRAM)["rows"], series.n("mean_cosine")
        pairs = f"all pairs of {count(n_rows)} rows"
        if n_sampled != n_rows:
            pairs = f"pairs among {count(n_sampled)} of {count(n_rows)} rows"
        return f"{pairs}, mean {number(series.value('mean_cosine'))}" if overlay.several else pairs

    has_cosines = any(any(series.detail(HISTOGRAM)["counts"]) for series in overlay.series)
    return Figure(
        slug="cosines",
        title="Cosines of pairs",
        caption=f"Cosine of two different rows: {overlay.describe(describe_pairs)}. {line_note}.",
        table=overlay.stacked_table(
            {
                "cosine_from": lambda series: series.detail(HISTOGRAM)["edges"][:-1],
                "cosine_to": lambda series: series.detail(HISTOGRAM)["edges"][1:],
                "pairs": lambda series: series.detail(HISTOGRAM)["counts"],
                "pairs_centred": lambda series: (series.detail(HISTOGRAM).get("centred") or {}).get(
                    "counts", [None] * len(series.detail(HISTOGRAM)["counts"])
                ),
            }
        ),
        draw=partial(_draw, overlay),
        empty=None if has_cosines else "Fewer than two rows are nonzero, so there is no cosine.",
    )


def _draw(overlay: Overlay) -> go.Figure:
    """Draw the raw cosines of each subject. For a single subject, also draw the centered ones, if they are stored."""
    if overlay.several:
        histograms = [
            _read_raw_histogram(series, series.label, series.color, series.label) for series in overlay.series
        ]
    else:
        series = overlay.series[0]
        raw_legend = f"raw, mean {number(series.value('mean_cosine'))}"
        centered = series.detail(HISTOGRAM).get("centred")
        histograms = [_read_raw_histogram(series, "raw", palette.SECOND if centered else palette.MAIN, raw_legend)]
        if centered:
            legend, edges = f"centered, mean {number(centered['mean'])}", series.detail(HISTOGRAM)["edges"]
            histograms.append(
                CosineHistogram("centred", palette.MAIN, legend, edges, centered["counts"], centered["mean"])
            )
    filled_edges = [
        edge
        for histogram in histograms
        for edges, pairs in zip(pairwise(histogram.edges), histogram.counts, strict=True)
        if pairs
        for edge in edges
    ]
    mean_lines = [
        vertical_line(histogram.mean, {"color": histogram.color, "width": 1.5, "dash": "dash"}) | {"layer": "above"}
        for histogram in histograms
        if histogram.mean is not None
    ]
    return plot(
        [_draw_outline(histogram) for histogram in histograms],
        shapes=mean_lines,
        showlegend=True,
        xaxis={"title": {"text": "Cosine"}, "range": [min(filled_edges) - 0.02, max(filled_edges) + 0.02]},
        yaxis={"title": {"text": "Share of pairs"}, "tickformat": "~%", "rangemode": "tozero"},
    )


def _read_raw_histogram(series: Series, name: str, color: str, legend: str) -> CosineHistogram:
    histogram = series.detail(HISTOGRAM)
    return CosineHistogram(name, color, legend, histogram["edges"], histogram["counts"], series.value("mean_cosine"))


def _draw_outline(histogram: CosineHistogram) -> go.Scatter:
    """Return the filled outline of the bars. Their heights are shares of all pairs, comparable between clouds."""
    total = sum(histogram.counts)
    bars = list(zip(pairwise(histogram.edges), histogram.counts, strict=True))
    bars.append(bars[-1])  # plotly draws each step up to the next edge, so the last edge repeats the last bar
    return go.Scatter(
        x=list(histogram.edges),
        y=[pairs / total if total else 0.0 for _, pairs in bars],
        mode="lines",
        line={"color": histogram.color, "width": 1.5, "shape": "hv"},
        fill="tozeroy",
        fillcolor=palette.with_opacity(histogram.color, 0.22),
        name=histogram.legend,
        customdata=[(low, high, pairs) for (low, high), pairs in bars],
        hovertemplate=f"{histogram.name}<br>cosine %{{customdata[0]:.2f}} to %{{customdata[1]:.2f}}: %{{y:.2%}}, "
        "%{customdata[2]:,} pairs<extra></extra>",
    )
