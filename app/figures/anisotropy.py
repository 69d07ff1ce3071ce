"""k-th anisotropy: the shares of the strongest directions, with the mean left in and taken out."""

from functools import partial
from typing import Any

import plotly.graph_objects as go

from app.figures import palette
from app.figures.figure import Figure, plot
from app.figures.overlay import Overlay, Series

RAW, CENTRED = "anisotropy_raw", "anisotropy_centred"


def anisotropy(overlay: Overlay) -> Figure:
    """k-th anisotropy of the points as they are and centred, which may be undefined and then has no values."""
    drawn = "" if not overlay.several else " Raw: lines with dots; centred: dashed."
    undefined = " ".join(
        f"{f'Of {one.name} centred' if overlay.several else 'Centred'} it is undefined: {one.reason(CENTRED)}"
        for one in overlay.series
        if not one.has(CENTRED)
    )
    return Figure(
        slug="anisotropy",
        title="k-th anisotropy",
        caption="Share of the k-th strongest direction, with the mean left in (raw) and taken out (centred), "
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
                ("centred", _centred(one), palette.MAIN),
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
                ("centred", _centred(one), "lines", "dash"),
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
