"""How variance is spread over directions: the eigenvalue spectrum and k-th anisotropy."""

from functools import partial
from itertools import accumulate
from typing import Any

import plotly.graph_objects as go

from app.embeddings.figures.overlay import Overlay, Series
from app.figures import palette
from app.figures.figure import Figure, log_axis, plot
from isoscope.core.formatting import count, plural

RAW, CENTERED = "anisotropy_raw", "anisotropy_centred"


def spectrum(overlay: Overlay) -> Figure:
    return Figure(
        slug="spectrum",
        title="Eigenvalue spectrum",
        caption=f"Variance along each principal component, {overlay.describe_rows('spectrum')}, both axes logarithmic. "
        "A flat line is isotropic.",
        table=overlay.table("component", {"eigenvalue": _read_eigenvalues}),
        draw=partial(_draw_spectrum, overlay),
    )


def cumulative_variance(overlay: Overlay) -> Figure:
    return Figure(
        slug="cumulative",
        title="Cumulative variance",
        caption=f"Share of the variance in the leading components, {overlay.describe_rows('spectrum')}. Dotted: an "
        f"isotropic cloud. Half of the variance lies in {overlay.describe(_describe_half_variance)}.",
        table=overlay.table("components", {"share_of_variance": _accumulate_shares}),
        draw=partial(_draw_cumulative, overlay),
    )


def _read_eigenvalues(series: Series) -> list[float]:
    eigenvalues: list[float] = series.detail("spectrum")["eigenvalues"]
    return eigenvalues


def _accumulate_shares(series: Series) -> list[float]:
    eigenvalues = _read_eigenvalues(series)
    total = sum(eigenvalues)
    return [partial_sum / total for partial_sum in accumulate(eigenvalues)]


def _describe_half_variance(series: Series) -> str:
    shares = _accumulate_shares(series)
    n_half = next(n for n, share in enumerate(shares, 1) if share >= 0.5)
    return f"{plural(n_half, 'component')} of {count(len(shares))}"


def _draw_spectrum(overlay: Overlay) -> go.Figure:
    eigenvalues = [_read_eigenvalues(series) for series in overlay.series]
    lines = [
        go.Scatter(
            x=list(range(1, len(values) + 1)),
            y=[value if value > 0 else None for value in values],
            mode="lines" if sum(value > 0 for value in values) > 1 else "markers",
            line={"color": series.color, "width": 2},
            name=series.label,
            hovertemplate=overlay.hover_template(series, "component %{x:,}: %{y:.3g}"),
        )
        for series, values in zip(overlay.series, eigenvalues, strict=True)
    ]
    return plot(
        lines,
        showlegend=overlay.several,
        xaxis=log_axis("Principal component", [1, max(map(len, eigenvalues))]),
        yaxis=log_axis("Eigenvalue", [value for values in eigenvalues for value in values]),
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
        for d in sorted({len(_read_eigenvalues(series)) for series in overlay.series})
    ]
    lines = [
        go.Scatter(
            x=list(range(len(_read_eigenvalues(series)) + 1)),
            y=[0, *_accumulate_shares(series)],
            mode="lines",
            line={"color": series.color, "width": 2},
            name=series.label,
            hovertemplate=overlay.hover_template(series, "first %{x:,} components: %{y:.1%}"),
        )
        for series in overlay.series
    ]
    return plot(
        [*isotropic, *lines],
        showlegend=overlay.several,
        xaxis={"title": {"text": "Leading components"}, "rangemode": "tozero"},
        yaxis={"title": {"text": "Share of variance"}, "range": [0, 1.02], "tickformat": ".0%"},
    )


def anisotropy(overlay: Overlay) -> Figure:
    styles = " Raw: lines with dots; centered: dashed." if overlay.several else ""
    undefined = " ".join(
        f"Centered{f' ({series.name})' if overlay.several else ''}, it is undefined: {series.explain_missing(CENTERED)}"
        for series in overlay.series
        if not series.can_draw(CENTERED)
    )
    return Figure(
        slug="anisotropy",
        title="k-th anisotropy",
        caption="Share of the k-th strongest direction, with the mean (raw) and without it (centered), "
        f"{overlay.describe_rows(RAW)}.{styles} {undefined}".rstrip(),
        table=overlay.table("k", {"raw": partial(_read_shares, RAW), "centred": partial(_read_shares, CENTERED)}),
        draw=partial(_draw_anisotropy, overlay),
    )


def _read_shares(slug: str, series: Series) -> list[float | None]:
    return list(series.detail(slug).get("values", []))


def _draw_anisotropy(overlay: Overlay) -> go.Figure:
    traces: list[Any] = []
    for series in overlay.series:
        for slug, name, mode, dash, color in (
            (RAW, "raw", "lines+markers", "solid", palette.SECOND),
            (CENTERED, "centered", "lines", "dash", palette.MAIN),
        ):
            shares = _read_shares(slug, series)
            points: dict[str, Any] = {
                "x": list(range(1, len(shares) + 1)),
                "y": shares,
                "hovertemplate": overlay.hover_template(series, f"k = %{{x}}, {name}: %{{y:.3g}}"),
            }
            if shares and overlay.several:
                line = {"color": series.color, "width": 2, "dash": dash}
                traces.append(
                    go.Scatter(mode=mode, line=line, marker={"size": 7}, name=series.label, legendgroup=series.name,
                               showlegend=slug == RAW, **points)
                )  # fmt: skip
            elif shares:
                traces.append(go.Bar(name=name, marker={"color": color}, **points))
    return plot(
        traces,
        showlegend=True,
        xaxis={"title": {"text": "k"}, "dtick": 1},
        yaxis={"title": {"text": "Share of energy"}, "rangemode": "tozero"},
        **({} if overlay.several else {"bargap": 0.3}),
    )
