"""How variance is spread over directions: the eigenvalue spectrum and k-th anisotropy."""

from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import plotly.graph_objects as go

from app.embeddings.figures.overlay import Overlay, Series
from app.figures import palette
from app.figures.figure import Figure, log_axis, plot
from isoscope.core.formatting import count, plural


def spectrum(overlay: Overlay) -> Figure:
    """Eigenvalues of the covariance, both axes logarithmic."""
    return Figure(
        slug="spectrum",
        title="Eigenvalue spectrum",
        caption=f"Variance along each principal component, {overlay.rows(_n)}, both axes logarithmic. "
        "A flat line is isotropic.",
        table=overlay.table("component", {"eigenvalue": _eigenvalues}),
        draw=partial(_draw_spectrum, overlay),
    )


def cumulative(overlay: Overlay) -> Figure:
    """Share of the variance in the leading components, beside that of an isotropic cloud."""
    halves = overlay.each(lambda one: _half(_shares(one)))
    return Figure(
        slug="cumulative",
        title="Cumulative variance",
        caption=f"Share of the variance in the leading components, {overlay.rows(_n)}. Dotted: an isotropic cloud. "
        f"Half of the variance lies in {halves}.",
        table=overlay.table("components", {"share_of_variance": _shares}),
        draw=partial(_draw_cumulative, overlay),
    )


def _n(one: Series) -> int:
    return one.n("spectrum")


def _eigenvalues(one: Series) -> list[float]:
    eigenvalues: list[float] = one.of("spectrum")["eigenvalues"]
    return eigenvalues


def _shares(one: Series) -> list[float]:
    eigenvalues = _eigenvalues(one)
    total = sum(eigenvalues)
    return [part / total for part in accumulate(eigenvalues)]


def _half(shares: Sequence[float]) -> str:
    half = next(i for i, share in enumerate(shares, 1) if share >= 0.5)
    return f"{plural(half, 'component')} of {count(len(shares))}"


def _draw_spectrum(overlay: Overlay) -> go.Figure:
    lines = [
        go.Scatter(
            x=list(range(1, len(_eigenvalues(one)) + 1)),
            y=[value if value > 0 else None for value in _eigenvalues(one)],
            mode="lines" if sum(value > 0 for value in _eigenvalues(one)) > 1 else "markers",
            line={"color": one.colour, "width": 2},
            name=one.label,
            hovertemplate=overlay.hover(one, "component %{x:,}: %{y:.3g}"),
        )
        for one in overlay.series
    ]
    longest = max(len(_eigenvalues(one)) for one in overlay.series)
    return plot(
        lines,
        showlegend=overlay.several,
        xaxis=log_axis("Principal component", [1, longest]),
        yaxis=log_axis("Eigenvalue", [value for one in overlay.series for value in _eigenvalues(one)]),
    )


def _draw_cumulative(overlay: Overlay) -> go.Figure:
    isotropic = [
        go.Scatter(
            x=[0, d],
            y=[0, 1],
            mode="lines",
            line={"color": palette.QUIET, "width": 1, "dash": "dot"},
            hoverinfo="skip",
            showlegend=False,
        )
        for d in sorted({len(_eigenvalues(one)) for one in overlay.series})
    ]
    lines = [
        go.Scatter(
            x=list(range(len(_eigenvalues(one)) + 1)),
            y=[0, *_shares(one)],
            mode="lines",
            line={"color": one.colour, "width": 2},
            name=one.label,
            hovertemplate=overlay.hover(one, "first %{x:,} components: %{y:.1%}"),
        )
        for one in overlay.series
    ]
    return plot(
        [*isotropic, *lines],
        showlegend=overlay.several,
        xaxis={"title": {"text": "Leading components"}, "rangemode": "tozero"},
        yaxis={"title": {"text": "Share of variance"}, "range": [0, 1.02], "tickformat": ".0%"},
    )


RAW, CENTRED = "anisotropy_raw", "anisotropy_centred"


def anisotropy(overlay: Overlay) -> Figure:
    """k-th anisotropy of the points as they are and centered, which may be undefined and then has no values."""
    drawn = "" if not overlay.several else " Raw: lines with dots; centered: dashed."
    undefined = " ".join(
        f"{f'Of {one.name} centered' if overlay.several else 'Centered'} it is undefined: {one.reason(CENTRED)}"
        for one in overlay.series
        if not one.has(CENTRED)
    )
    return Figure(
        slug="anisotropy",
        title="k-th anisotropy",
        caption="Share of the k-th strongest direction, with the mean (raw) and without it (centered), "
        f"{overlay.rows(lambda one: one.n(RAW))}.{drawn} {undefined}".rstrip(),
        table=overlay.table("k", {"raw": _raw, "centred": _centred}),
        draw=partial(_draw_lines if overlay.several else _draw_bars, overlay),
    )


def _raw(one: Series) -> list[float | None]:
    return list(one.of(RAW)["values"])


def _centred(one: Series) -> list[float | None]:
    return list(one.of(CENTRED).get("values", []))


def _draw_bars(overlay: Overlay) -> go.Figure:
    (one,) = overlay.series
    return _plot(
        [
            go.Bar(
                x=list(range(1, len(shares) + 1)),
                y=shares,
                name=name,
                marker={"color": colour},
                hovertemplate=overlay.hover(one, f"k = %{{x}}, {name}: %{{y:.3g}}"),
            )
            for name, shares, colour in (
                ("raw", _raw(one), palette.OTHER),
                ("centered", _centred(one), palette.MAIN),
            )
            if shares
        ],
        bargap=0.3,
    )


def _draw_lines(overlay: Overlay) -> go.Figure:
    return _plot(
        [
            go.Scatter(
                x=list(range(1, len(shares) + 1)),
                y=shares,
                mode=mode,
                line={"color": one.colour, "width": 2, "dash": dash},
                marker={"size": 7},
                name=one.label,
                legendgroup=one.name,
                showlegend=name == "raw",
                hovertemplate=overlay.hover(one, f"k = %{{x}}, {name}: %{{y:.3g}}"),
            )
            for one in overlay.series
            for name, shares, mode, dash in (
                ("raw", _raw(one), "lines+markers", "solid"),
                ("centered", _centred(one), "lines", "dash"),
            )
            if shares
        ],
    )


def _plot(traces: list[Any], **layout: Any) -> go.Figure:
    return plot(
        traces,
        showlegend=True,
        xaxis={"title": {"text": "k"}, "dtick": 1},
        yaxis={"title": {"text": "Share of energy"}, "rangemode": "tozero"},
        **layout,
    )
