"""Figures of distances between rows: the barcode in dimension 0 and the fit of TwoNN."""

from functools import partial
from math import exp

import plotly.graph_objects as go

from app.embeddings.figures.overlay import Overlay, Series
from app.figures import palette
from app.figures.figure import Figure, log_axis, pick_evenly, plot
from isoscope.core.formatting import count, number, plural, with_se

BARCODE = "barcode"
# With more bars, only their outline is drawn, with ranks on a logarithmic axis.
MAX_BARS = 150
LENGTH_AXIS = {"title": {"text": "Length"}, "rangemode": "tozero"}
TWONN = "twonn"
MAX_POINTS = 2000
ROUNDING_TOLERANCE = 1e-9


def barcode(overlay: Overlay) -> Figure:
    caption = (
        "Each bar is a group of rows. Its length is the distance at which the group joins another: "
        f"{overlay.describe(_describe_bars)}."
    )
    if any(map(_count_prominent, overlay.series)):
        caption += " Prominent bars are marked. Their number is not the number of groups."
    draws_bars = not overlay.several and len(_list_bar_lengths(overlay.series[0])) <= MAX_BARS
    if not draws_bars:
        caption += " Only their outline is drawn, with ranks on a logarithmic axis."
    return Figure(
        slug="barcode",
        title="Barcode in dimension 0",
        caption=caption,
        table=overlay.table("rank", {"length": _list_bar_lengths}),
        draw=partial(_draw_bars if draws_bars else _draw_outlines, overlay),
    )


def _list_bar_lengths(series: Series) -> list[float]:
    return sorted(series.detail(BARCODE)["lengths"], reverse=True)


def _count_prominent(series: Series) -> int:
    return int(series.value("prominent_bars") or 0)


def _describe_bars(series: Series) -> str:
    bars = f"{plural(len(series.detail(BARCODE)['lengths']), 'bar')} of {count(series.n(BARCODE))} rows"
    if not (n_prominent := _count_prominent(series)):
        return bars
    gaussian = series.detail("prominent_bars").get("parts", {}).get("gaussian_of_the_same_size")
    reference = "" if gaussian is None else f" (a Gaussian of the same size has {count(int(gaussian))})"
    return f"{bars}, {count(n_prominent)} of them prominent{reference}"


def _draw_bars(overlay: Overlay) -> go.Figure:
    """Draw a line from 0 for each bar: first the others, then the prominent ones in another color."""
    (series,) = overlay.series
    lengths, n_prominent = _list_bar_lengths(series), _count_prominent(series)
    traces = [
        go.Scatter(
            x=[x for i in ranks for x in (0, lengths[i], None)],
            y=[y for i in ranks for y in (i + 1, i + 1, None)],
            mode="lines",
            line={"color": color, "width": 3 if len(lengths) <= MAX_BARS / 3 else 1.2},
            hovertemplate=overlay.hover_template(series, "bar %{y:,}: length %{x:.3g}"),
        )
        for ranks, color in ((range(n_prominent, len(lengths)), palette.MAIN), (range(n_prominent), palette.MARKED))
        if ranks
    ]
    rank_axis = {"title": {"text": "Rank"}, "range": [len(lengths) + 0.5, 0.5]}
    return plot(traces, showlegend=False, xaxis=LENGTH_AXIS, yaxis=rank_axis)


def _draw_outlines(overlay: Overlay) -> go.Figure:
    traces = []
    for series in overlay.series:
        lengths, n_prominent = _list_bar_lengths(series), _count_prominent(series)
        fill = {} if overlay.several else {"fill": "tozerox", "fillcolor": palette.with_opacity(series.color, 0.22)}
        ranks = list(range(1, len(lengths) + 1))
        hover = overlay.hover_template(series, "bar %{y:,}: length %{x:.3g}")
        line = {"color": series.color, "width": 1.6, "shape": "hv"}
        marker = {"color": series.color if overlay.several else palette.MARKED, "size": 5}
        traces += [
            go.Scatter(x=lengths, y=ranks, mode="lines", name=series.label, **fill, line=line, legendgroup=series.name,
                       hovertemplate=hover),
            go.Scatter(x=lengths[:n_prominent], y=ranks[:n_prominent], mode="markers", marker=marker, showlegend=False,
                       legendgroup=series.name, hovertemplate=hover),
        ]  # fmt: skip
    axis = log_axis("Rank", [1, max(len(_list_bar_lengths(series)) for series in overlay.series)])
    rank_axis = axis | {"range": axis["range"][::-1]}
    return plot(traces, showlegend=overlay.several, xaxis=LENGTH_AXIS, yaxis=rank_axis)


def twonn(overlay: Overlay) -> Figure:
    max_points = MAX_POINTS // len(overlay.series)
    discard = overlay.series[0].detail(TWONN)["discard"]
    stored_counts = [len(series.detail(TWONN)["log_mu"]) for series in overlay.series]
    drawn_note = overlay.describe(
        lambda series: (
            f"{count(min(max_points, len(series.detail(TWONN)['log_mu'])))} of "
            f"{count(len(series.detail(TWONN)['log_mu']))} points drawn"
        )
    )
    drawn_note = f" {drawn_note}." if max(stored_counts) > max_points else ""
    return Figure(
        slug="twonn",
        title="TwoNN fit",
        caption="Each point is a row: μ is the distance to its second neighbor over that to its first, F the share of "
        f"rows with a smaller or equal μ. Slope: {overlay.describe(_describe_slope)}; "
        f"{overlay.describe_rows(TWONN)}. The {discard:.0%} with the largest μ are not fitted.{drawn_note}",
        table=overlay.stacked_table(
            {
                "log_mu": lambda series: series.detail(TWONN)["log_mu"],
                "minus_log_survival": lambda series: series.detail(TWONN)["minus_log_survival"],
                "fitted": lambda series: ["yes" if fitted else "no" for *_, fitted in _list_twonn_points(series)],
            }
        ),
        draw=partial(_draw_twonn, overlay, max_points),
    )


def _list_twonn_points(series: Series) -> list[tuple[float, float, bool]]:
    """Return log μ, −log(1 − F) and whether it is fitted for each row, by ascending μ. The largest μ are not fitted."""
    fit = series.detail(TWONN)
    min_survival = fit["discard"] * (1 - ROUNDING_TOLERANCE)
    return [
        (log_mu, minus_log_survival, exp(-minus_log_survival) >= min_survival)
        for log_mu, minus_log_survival in zip(fit["log_mu"], fit["minus_log_survival"], strict=True)
    ]


def _describe_slope(series: Series) -> str:
    measurement = series.subject.measurements[TWONN]
    slope = f"d = {with_se(measurement.value, measurement.se)}"
    goodness = series.detail(TWONN).get("parts", {})
    if goodness.get("fit_distance") is None:
        return slope
    distance, chance_distance = (number(goodness[name], 2) for name in ("fit_distance", "fit_distance_by_chance"))
    return f"{slope}, which misses F by up to {distance} (by chance {chance_distance})"


def _draw_twonn(overlay: Overlay, max_points: int) -> go.Figure:
    traces = []
    for series in overlay.series:
        points, slope = pick_evenly(_list_twonn_points(series), max_points), series.value(TWONN) or 0.0
        for fitted in (False, True):
            hover_text = "log μ %{x:.3g}<br>−log(1 − F) %{y:.3g}" + ("" if fitted else "<br>not fitted")
            traces.append(
                go.Scatter(
                    x=[x for x, _, is_fitted in points if is_fitted is fitted],
                    y=[y for _, y, is_fitted in points if is_fitted is fitted],
                    mode="markers",
                    marker={"color": series.color if fitted else palette.QUIET, "size": 3},
                    legendgroup=series.name,
                    showlegend=False,
                    hovertemplate=overlay.hover_template(series, hover_text),
                )
            )
        # End the line where it leaves the rectangle of the points.
        end = min(points[-1][0], points[-1][1] / slope) if slope else 0.0
        traces.append(
            go.Scatter(
                x=[0, end],
                y=[0, slope * end],
                mode="lines",
                line={"color": series.color if overlay.several else palette.MARKED, "width": 2},
                name=series.label,
                legendgroup=series.name,
                hoverinfo="skip",
            )
        )
    return plot(
        traces,
        showlegend=overlay.several,
        xaxis={"title": {"text": "log μ"}, "rangemode": "tozero"},
        yaxis={"title": {"text": "−log(1 − F)"}, "rangemode": "tozero"},
    )
