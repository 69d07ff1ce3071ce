"""The fit of TwoNN: minus the logarithm of the survival over that of the ratio of the two nearest distances."""

from functools import partial
from math import exp
from typing import Any, NamedTuple

import plotly.graph_objects as go

from app.figures import palette
from app.figures.figure import Figure, plot, thinned
from app.figures.overlay import Overlay, Series
from app.numerals import count, number

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
        caption="Each point is a row: μ is the distance to its second neighbour over that to its first, F the share of "
        f"rows with so small a μ. Slope: {overlay.each(_slope)}; {overlay.rows(lambda one: one.n(TWONN))}. The "
        f"{discard:.0%} with the greatest μ are not fitted.{drawn}",
        table=overlay.stacked(
            {
                "log_mu": lambda one: one.of(TWONN)["log_mu"],
                "minus_log_survival": lambda one: one.of(TWONN)["minus_log_survival"],
                "fitted": lambda one: ["yes" if fitted else "no" for fitted in _fitted(one)],
            }
        ),
        draw=partial(_draw, overlay, most),
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


def _draw(overlay: Overlay, most: int) -> go.Figure:
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
        marker={"color": one.colour if fitted else palette.QUIET, "size": 4, "opacity": 0.5},
        legendgroup=one.name,
        showlegend=False,
        hovertemplate=overlay.hover(
            one, "log μ %{x:.3g}<br>−log(1 − F) %{y:.3g}" + ("" if fitted else "<br>not fitted")
        ),
    )
