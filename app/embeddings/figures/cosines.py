"""Cosines of pairs of rows, as they are and with their mean taken out."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import plotly.graph_objects as go

from app.embeddings.figures.overlay import Overlay, Series
from app.figures import palette
from app.figures.figure import Figure, plot
from isoscope.core.formatting import count, number

HISTOGRAM = "cosine_histogram"


class Histogram(NamedTuple):
    """Pairs by their cosine, and the mean cosine that a line marks."""

    name: str
    colour: str
    legend: str
    edges: Sequence[float]
    counts: Sequence[int]
    mean: float | None

    @property
    def shares(self) -> list[float]:
        """Of all pairs, so that unlike numbers of rows compare."""
        pairs = sum(self.counts)
        return [one / pairs if pairs else 0.0 for one in self.counts]


def cosines(overlay: Overlay) -> Figure:
    """Histograms of the cosine of pairs of rows with the exact mean over all pairs; of one subject, centered too."""
    centred = not overlay.several and bool(overlay.series[0].of(HISTOGRAM).get("centred"))
    line = "The line is the exact mean over all pairs"
    if centred:
        line = (
            "Raw, and centered by subtracting the mean row. Lines: the mean over all pairs (raw) and over the sampled "
            "pairs (centered)"
        )
    drawn = any(any(one.of(HISTOGRAM)["counts"]) for one in overlay.series)
    return Figure(
        slug="cosines",
        title="Cosines of pairs",
        caption=f"Cosine of two different rows: {overlay.each(partial(_pairs, overlay))}. {line}.",
        table=overlay.stacked(
            {
                "cosine_from": lambda one: one.of(HISTOGRAM)["edges"][:-1],
                "cosine_to": lambda one: one.of(HISTOGRAM)["edges"][1:],
                "pairs": lambda one: one.of(HISTOGRAM)["counts"],
                "pairs_centred": _centred_counts,
            }
        ),
        draw=partial(_draw, overlay),
        empty=None if drawn else "Fewer than two rows are nonzero, so there is no cosine.",
    )


def _pairs(overlay: Overlay, one: Series) -> str:
    shown, rows = one.of(HISTOGRAM)["rows"], one.n("mean_cosine")
    pairs = f"all pairs of {count(rows)} rows" if shown == rows else f"pairs of {count(shown)} rows of {count(rows)}"
    return f"{pairs}, mean {number(one.value('mean_cosine'))}" if overlay.several else pairs


def _centred_counts(one: Series) -> list[int | None]:
    histogram = one.of(HISTOGRAM)
    counts: list[int | None] = (histogram.get("centred") or {}).get("counts", [None] * len(histogram["counts"]))
    return counts


def _histograms(overlay: Overlay) -> list[Histogram]:
    """The raw cosines of each subject; of one alone the centered ones too, behind whose color is that of the data."""
    if overlay.several:
        return [_raw(one, one.label, one.colour, one.label) for one in overlay.series]
    (one,) = overlay.series
    if not (centred := one.of(HISTOGRAM).get("centred")):
        return [_raw(one, "raw", palette.MAIN, _legend("raw", one.value("mean_cosine")))]
    legend, mean = _legend("centered", centred["mean"]), centred["mean"]
    return [
        _raw(one, "raw", palette.OTHER, _legend("raw", one.value("mean_cosine"))),
        Histogram("centred", palette.MAIN, legend, one.of(HISTOGRAM)["edges"], centred["counts"], mean),
    ]


def _legend(name: str, mean: float | None) -> str:
    return f"{name}, mean {number(mean)}"


def _raw(one: Series, name: str, colour: str, legend: str) -> Histogram:
    histogram = one.of(HISTOGRAM)
    return Histogram(name, colour, legend, histogram["edges"], histogram["counts"], one.value("mean_cosine"))


def _draw(overlay: Overlay) -> go.Figure:
    histograms = _histograms(overlay)
    filled = [edge for one in histograms for edges, pairs in zip(pairwise(one.edges), one.counts, strict=True) if pairs
              for edge in edges]  # fmt: skip
    return plot(
        [_steps(one) for one in histograms],
        shapes=[_line(one) for one in histograms if one.mean is not None],
        showlegend=True,
        xaxis={"title": {"text": "Cosine"}, "range": [min(filled) - 0.02, max(filled) + 0.02]},
        yaxis={"title": {"text": "Share of pairs"}, "tickformat": "~%", "rangemode": "tozero"},
    )


def _steps(one: Histogram) -> go.Scatter:
    """The outline of the bars, filled: several stay readable one over another."""
    bars = list(zip(pairwise(one.edges), one.counts, strict=True))
    return go.Scatter(
        x=list(one.edges),
        y=[*one.shares, one.shares[-1]],  # a step goes from its edge to the next, the last one too
        mode="lines",
        line={"color": one.colour, "width": 1.5, "shape": "hv"},
        fill="tozeroy",
        fillcolor=palette.faded(one.colour, 0.22),
        name=one.legend,
        customdata=[(low, high, pairs) for (low, high), pairs in [*bars, bars[-1]]],
        hovertemplate=f"{one.name}<br>cosine %{{customdata[0]:.2f}} to %{{customdata[1]:.2f}}: %{{y:.2%}}, "
        "%{customdata[2]:,} pairs<extra></extra>",
    )


def _line(one: Histogram) -> dict[str, Any]:
    line = {"color": one.colour, "width": 1.5, "dash": "dash"}
    return {"type": "line", "x0": one.mean, "x1": one.mean, "yref": "paper", "y0": 0, "y1": 1, "line": line}
