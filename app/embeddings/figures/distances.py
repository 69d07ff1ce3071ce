"""Figures of distances between rows: the barcode in dimension 0 and the fit of TwoNN."""

from functools import partial
from math import exp
from typing import Any, NamedTuple

import plotly.graph_objects as go

from app.embeddings.figures.overlay import Overlay, Series
from app.figures import palette
from app.figures.figure import Figure, log_axis, plot, thinned
from isoscope.core.formatting import count, number, plural

BARCODE = "barcode"
MOST_BARS = 150
"""Of more than so many bars only the outline is drawn, and their ranks are on a logarithmic axis."""


def barcode(overlay: Overlay) -> Figure:
    """The bars from the longest to the shortest, the prominent ones colored."""
    outline = "" if _few(overlay) else " Only their outline is drawn, with ranks on a logarithmic axis."
    return Figure(
        slug="barcode",
        title="Barcode in dimension 0",
        caption="Each bar is a group of rows. Its length is the distance at which the group joins another: "
        f"{overlay.each(_describe)}.{_marks(overlay)}{outline}",
        table=overlay.table("rank", {"length": lengths}),
        draw=partial(_draw_barcode, overlay),
    )


def lengths(one: Series) -> list[float]:
    """The bars, longest first."""
    return sorted(one.of(BARCODE)["lengths"], reverse=True)


def _prominent(one: Series) -> int:
    return int(one.value("prominent_bars") or 0)


def _describe(one: Series) -> str:
    bars = f"{plural(len(one.of(BARCODE)['lengths']), 'bar')} of {count(one.n(BARCODE))} rows"
    if not _prominent(one):
        return bars
    gaussian = (one.subject.found["prominent_bars"].detail or {}).get("parts", {}).get("gaussian_of_the_same_size")
    beside = "" if gaussian is None else f" (a Gaussian of the same size has {count(int(gaussian))})"
    return f"{bars}, {count(_prominent(one))} of them prominent{beside}"


def _marks(overlay: Overlay) -> str:
    return (
        " Prominent bars are marked. Their number is not the number of groups."
        if any(map(_prominent, overlay.series))
        else ""
    )


def _few(overlay: Overlay) -> bool:
    return not overlay.several and len(lengths(overlay.series[0])) <= MOST_BARS


def _draw_barcode(overlay: Overlay) -> go.Figure:
    if _few(overlay):
        (one,) = overlay.series
        return _plot(
            overlay, [*_bars(overlay, one)], {"title": {"text": "Rank"}, "range": [len(lengths(one)) + 0.5, 0.5]}
        )
    most = max(len(lengths(one)) for one in overlay.series)
    axis = log_axis("Rank", [1, most])
    traces = [trace for one in overlay.series for trace in _outline(overlay, one)]
    return _plot(overlay, traces, axis | {"range": axis["range"][::-1]})


def _plot(overlay: Overlay, traces: list[go.Scatter], rank: dict[str, object]) -> go.Figure:
    return plot(
        traces,
        showlegend=overlay.several,
        xaxis={"title": {"text": "Length"}, "rangemode": "tozero"},
        yaxis=rank,
    )


def _bars(overlay: Overlay, one: Series) -> list[go.Scatter]:
    """A line from 0 for each bar: first those that are noise, then the prominent ones."""
    bars, prominent = lengths(one), _prominent(one)
    parts = ((range(prominent, len(bars)), palette.MAIN), (range(prominent), palette.MARKED))
    return [
        go.Scatter(
            x=[x for i in ranks for x in (0, bars[i], None)],
            y=[y for i in ranks for y in (i + 1, i + 1, None)],
            mode="lines",
            line={"color": colour, "width": 3 if len(bars) <= MOST_BARS / 3 else 1.2},
            hovertemplate=overlay.hover(one, "bar %{y:,}: length %{x:.3g}"),
        )
        for ranks, colour in parts
        if ranks
    ]


def _outline(overlay: Overlay, one: Series) -> list[go.Scatter]:
    """The ends of the bars as steps, over which the prominent ones are drawn thicker."""
    bars, prominent = lengths(one), _prominent(one)
    alone = {} if overlay.several else {"fill": "tozerox", "fillcolor": palette.faded(one.colour, 0.22)}
    ranks = list(range(1, len(bars) + 1))
    shared = {
        "line": {"color": one.colour, "width": 1.6, "shape": "hv"},
        "legendgroup": one.name,
        "hovertemplate": overlay.hover(one, "bar %{y:,}: length %{x:.3g}"),
    }
    marked = {"color": one.colour if overlay.several else palette.MARKED, "size": 5}
    return [
        go.Scatter(x=bars, y=ranks, mode="lines", name=one.label, **alone, **shared),
        go.Scatter(x=bars[:prominent], y=ranks[:prominent], mode="markers", marker=marked, showlegend=False,
                   legendgroup=one.name, hovertemplate=shared["hovertemplate"]),
    ]  # fmt: skip


TWONN = "twonn"
MOST_DRAWN = 2000
ROUNDING = 1e-9


class Point(NamedTuple):
    """A row by the ratio of its two nearest distances; ``fitted`` where it was not among the greatest, left out."""

    log_mu: float
    minus_log_survival: float
    fitted: bool


def twonn(overlay: Overlay) -> Figure:
    """The points of the fit and its line through the origin, whose slope is the intrinsic dimension."""
    most = MOST_DRAWN // len(overlay.series)
    discard = overlay.series[0].of(TWONN)["discard"]
    stored = [len(one.of(TWONN)["log_mu"]) for one in overlay.series]
    drawn = f" {overlay.each(lambda one: _drawn(one, most))}." if max(stored) > most else ""
    return Figure(
        slug="twonn",
        title="TwoNN fit",
        caption="Each point is a row: μ is the distance to its second neighbor over that to its first, F the share of "
        f"rows with a smaller or equal μ. Slope: {overlay.each(_slope)}; {overlay.rows(lambda one: one.n(TWONN))}. The "
        f"{discard:.0%} with the largest μ are not fitted.{drawn}",
        table=overlay.stacked(
            {
                "log_mu": lambda one: one.of(TWONN)["log_mu"],
                "minus_log_survival": lambda one: one.of(TWONN)["minus_log_survival"],
                "fitted": lambda one: ["yes" if fitted else "no" for fitted in _fitted(one)],
            }
        ),
        draw=partial(_draw_twonn, overlay, most),
    )


def _fitted(one: Series) -> list[bool]:
    """Which points are fitted: not the share with the greatest ratios."""
    found = one.of(TWONN)
    least = found["discard"] * (1 - ROUNDING)
    return [exp(-y) >= least for y in found["minus_log_survival"]]


def _points(one: Series) -> list[Point]:
    """The points that are stored, the least ratio first."""
    found = one.of(TWONN)
    return [Point(*point) for point in zip(found["log_mu"], found["minus_log_survival"], _fitted(one), strict=True)]


def _slope(one: Series) -> str:
    found = one.subject.found[TWONN]
    error = f" ± {number(found.se, 2)}" if found.se is not None else ""
    goodness = one.of(TWONN).get("parts", {})
    if goodness.get("fit_distance") is None:
        return f"d = {number(found.value)}{error}"
    distance, by_chance = (number(goodness[name], 2) for name in ("fit_distance", "fit_distance_by_chance"))
    return f"d = {number(found.value)}{error}, which misses F by up to {distance} (by chance {by_chance})"


def _drawn(one: Series, most: int) -> str:
    stored = len(one.of(TWONN)["log_mu"])
    return f"{count(min(most, stored))} of {count(stored)} points drawn"


def _draw_twonn(overlay: Overlay, most: int) -> go.Figure:
    return plot(
        [trace for one in overlay.series for trace in _traces(overlay, one, most)],
        showlegend=overlay.several,
        xaxis={"title": {"text": "log μ"}, "rangemode": "tozero"},
        yaxis={"title": {"text": "−log(1 − F)"}, "rangemode": "tozero"},
    )


def _traces(overlay: Overlay, one: Series, most: int) -> list[go.Scatter]:
    """The points left out, those fitted, and the line, as far as the points reach."""
    shown, slope = thinned(_points(one), most), one.value(TWONN) or 0.0
    end = min(shown[-1].log_mu, shown[-1].minus_log_survival / slope) if slope else 0.0
    line: dict[str, Any] = {"x": [0, end], "y": [0, slope * end]}
    return [
        *(
            _markers(overlay, one, [point for point in shown if point.fitted is fitted], fitted)
            for fitted in (False, True)
        ),
        go.Scatter(
            **line,
            mode="lines",
            line={"color": one.colour if overlay.several else palette.MARKED, "width": 2},
            name=one.label,
            legendgroup=one.name,
            hoverinfo="skip",
        ),
    ]


def _markers(overlay: Overlay, one: Series, shown: list[Point], fitted: bool) -> go.Scatter:
    return go.Scatter(
        x=[point.log_mu for point in shown],
        y=[point.minus_log_survival for point in shown],
        mode="markers",
        marker={"color": one.colour if fitted else palette.QUIET, "size": 3},
        legendgroup=one.name,
        showlegend=False,
        hovertemplate=overlay.hover(
            one, "log μ %{x:.3g}<br>−log(1 − F) %{y:.3g}" + ("" if fitted else "<br>not fitted")
        ),
    )
