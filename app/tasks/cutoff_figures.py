"""Figures of a calibration: P(match) by similarity, and the similarities of matches, non-matches and random pairs."""

from functools import partial

import plotly.graph_objects as go

from app.figures import palette
from app.figures.figure import Figure, FigureTable, band, linear_axis, plot
from isotropy.catalog import SIMILARITIES
from isotropy.catalog.calibration import Calibration, PairSpace

PROBABILITY_RANGE = (0.0, 1.0)


def cutoff_figures(calibration: Calibration | None) -> list[Figure]:
    """Return the figures of vectors as they are, or after the remedy that was chosen; none without a calibration."""
    if calibration is None:
        return []
    space, title = calibration.spaces[-1], SIMILARITIES[calibration.similarity].capitalize()
    after = f" After {space.name}." if calibration.chosen else ""
    curve = FigureTable(
        [title, "P(match)", "low", "high"],
        [[point.similarity, point.share, point.low, point.high] for point in space.curve],
    )
    histogram = space.histogram
    columns = histogram.edges[:-1], histogram.edges[1:], histogram.matches, histogram.non_matches, histogram.permuted
    shares = FigureTable(
        ["from", "to", "matches", "non-matches", "random pairs"], [list(row) for row in zip(*columns, strict=True)]
    )
    curve_caption = f"The line is isotonic regression, with a 95% band. It is of pairs mixed like yours.{after}"
    histogram_caption = (
        f"Shares of the pairs of each kind. Random pairs are yours with their second sides permuted.{after}"
    )
    return [
        Figure("cutoff", "P(match) by similarity", curve_caption, curve, partial(_draw_curve, space, title)),
        Figure("pairs", "Similarity of pairs", histogram_caption, shares, partial(_draw_histogram, space, title)),
    ]


def _draw_curve(space: PairSpace, title: str) -> go.Figure:
    similarities = [point.similarity for point in space.curve]
    lows, highs = [point.low for point in space.curve], [point.high for point in space.curve]
    traces = [
        *band(similarities, lows, highs, palette.MAIN, 0.22),
        go.Scatter(
            x=similarities,
            y=[point.share for point in space.curve],
            mode="lines",
            line={"color": palette.MAIN, "width": 2},
            customdata=[[point.low, point.high] for point in space.curve],
            hovertemplate="%{x:.4g}: %{y:.3f} [%{customdata[0]:.3f}, %{customdata[1]:.3f}]<extra></extra>",
        ),
    ]
    probability_axis = linear_axis("P(match)", PROBABILITY_RANGE, PROBABILITY_RANGE)
    return plot(traces, xaxis=linear_axis(title, similarities), yaxis=probability_axis)


def _draw_histogram(space: PairSpace, title: str) -> go.Figure:
    histogram = space.histogram
    middles = [(low + high) / 2 for low, high in zip(histogram.edges, histogram.edges[1:], strict=False)]
    samples = (
        ("Matches", histogram.matches, palette.MAIN),
        ("Non-matches", histogram.non_matches, palette.MARKED),
        ("Random pairs", histogram.permuted, palette.QUIET),
    )
    traces = [
        go.Scatter(
            x=middles,
            y=shares,
            mode="lines",
            line={"color": color, "shape": "hvh"},
            name=name,
            hovertemplate=f"{name}, %{{x:.4g}}: %{{y:.1%}}<extra></extra>",
        )
        for name, shares, color in samples
    ]
    all_shares = [share for _, shares, _ in samples for share in shares]
    axes = {"xaxis": linear_axis(title, middles), "yaxis": linear_axis("Share of pairs", all_shares)}
    return plot(traces, showlegend=True, **axes)
