"""How variance is spread: the spectrum of the covariance, and the shares of its leading directions."""

from collections.abc import Sequence
from functools import partial
from itertools import accumulate, zip_longest

import plotly.graph_objects as go

from app.figures import palette
from app.figures.figure import Figure, Table, plot
from app.numerals import count, plural


def spectrum(eigenvalues: Sequence[float], n: int) -> Figure:
    """Eigenvalues of the covariance on a logarithmic scale."""
    return Figure(
        slug="spectrum",
        title="Eigenvalue spectrum",
        caption=f"Variance along each principal component, n = {count(n)} rows. A flat line is isotropic.",
        table=Table(["component", "eigenvalue"], [[i, value] for i, value in enumerate(eigenvalues, 1)]),
        draw=partial(_draw_spectrum, eigenvalues),
    )


def cumulative(eigenvalues: Sequence[float], n: int) -> Figure:
    """Share of the variance in the leading components, beside that of an isotropic cloud."""
    total = sum(eigenvalues)
    shares = [part / total for part in accumulate(eigenvalues)] if total > 0 else []
    half = next((i for i, share in enumerate(shares, 1) if share >= 0.5), None)
    return Figure(
        slug="cumulative",
        title="Cumulative variance",
        caption=f"Share of the variance in the leading components, n = {count(n)} rows; "
        "dotted, an isotropic cloud."
        + (f" Half of it lies in {plural(half, 'component')} of {count(len(shares))}." if half else ""),
        table=Table(["components", "share_of_variance"], [[i, share] for i, share in enumerate(shares, 1)]),
        draw=partial(_draw_cumulative, shares),
        empty=None if shares else "There is no variance to share out: all rows are equal.",
    )


def anisotropy(raw: Sequence[float], centred: Sequence[float], n: int, why_not_centred: str | None = None) -> Figure:
    """k-th anisotropy of the points as they are and centred, which may be undefined and then has no values."""
    pairs = enumerate(zip_longest(raw, centred), 1)
    return Figure(
        slug="anisotropy",
        title="k-th anisotropy",
        caption="Share of the k-th strongest direction, with the mean left in (raw) and taken out (centred), "
        f"n = {count(n)} rows." + (f" Centred it is undefined: {why_not_centred}" if why_not_centred else ""),
        table=Table(["k", "raw", "centred"], [[k, a, b] for k, (a, b) in pairs]),
        draw=partial(_draw_anisotropy, raw, centred),
    )


def _draw_spectrum(eigenvalues: Sequence[float]) -> go.Figure:
    positive = [value if value > 0 else None for value in eigenvalues]
    line = go.Scatter(
        x=list(range(1, len(positive) + 1)),
        y=positive,
        mode="lines",
        line={"color": palette.MAIN, "width": 2},
        hovertemplate="component %{x}: %{y:.3g}<extra></extra>",
    )
    return plot(
        [line],
        xaxis={"title": {"text": "Principal component"}},
        yaxis={"title": {"text": "Eigenvalue"}, "type": "log", "tickformat": "~g"},
    )


def _draw_cumulative(shares: Sequence[float]) -> go.Figure:
    components = list(range(1, len(shares) + 1))
    return plot(
        [
            go.Scatter(
                x=[0, len(shares)],
                y=[0, 1],
                mode="lines",
                line={"color": palette.QUIET, "width": 1, "dash": "dot"},
                hoverinfo="skip",
            ),
            go.Scatter(
                x=[0, *components],
                y=[0, *shares],
                mode="lines",
                line={"color": palette.MAIN, "width": 2},
                hovertemplate="first %{x} components: %{y:.1%}<extra></extra>",
            ),
        ],
        xaxis={"title": {"text": "Leading components"}},
        yaxis={"title": {"text": "Share of variance"}, "range": [0, 1.02], "tickformat": ".0%"},
    )


def _draw_anisotropy(raw: Sequence[float], centred: Sequence[float]) -> go.Figure:
    ks = list(range(1, len(raw) + 1))
    bars = [("raw", raw, palette.OTHER), ("centred", centred, palette.MAIN)]
    return plot(
        [
            go.Bar(
                x=ks,
                y=list(shares),
                name=name,
                marker={"color": colour},
                hovertemplate=f"k = %{{x}}, {name}: %{{y:.3g}}<extra></extra>",
            )
            for name, shares, colour in bars
        ],
        showlegend=True,
        bargap=0.3,
        xaxis={"title": {"text": "k"}, "dtick": 1},
        yaxis={"title": {"text": "Share of energy"}},
    )
