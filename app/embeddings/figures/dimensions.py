"""Figures by dimension: the activation profile, and the contribution of each dimension to the mean cosine."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import plotly.graph_objects as go

from app.embeddings.figures.overlay import Overlay, Series
from app.figures import palette
from app.figures.figure import Cell, Figure, FigureTable, band, plot, vertical_line
from isoscope.core.formatting import count, number, plural
from isotropy.catalog import OUTLIER_RULES

PROFILE = "activation_profile"
ACTIVATION = "activation"
MAX_NAMED = 8  # Dimensions with a name each
MAX_LINES = 100  # Dimensions with a line each
# Fraction of the plot's height, for the name of an outlier at its top.
HEADROOM = 0.2
ROGUE = "rogue_dimensions"


def activation(overlay: Overlay) -> Figure:
    marked_note = ""
    if not overlay.several:
        outliers = len(_name_outlier_rules(overlay.series[0].detail(PROFILE)))
        marked_note = _describe_flagged(overlay.series[0])
        marked_note += (
            f" The numbers say which rule flags {plural(outliers, 'dimension')} as outliers." if outliers else ""
        )
    return Figure(
        slug=ACTIVATION,
        title="Activation by dimension",
        caption="Mean of each dimension (line) with one standard deviation on each side (band), "
        f"{overlay.describe_rows(PROFILE)}.{marked_note}",
        table=overlay.table(
            "dimension",
            {
                "mean": lambda series: series.detail(PROFILE)["mean"],
                "standard_deviation": lambda series: series.detail(PROFILE)["std"],
                "outlier_by": _list_outlier_rules,
            },
            start=0,
        ),
        draw=partial(_draw_activation, overlay),
    )


def _describe_flagged(series: Series) -> str:
    """Say which dimensions are marked: those that findings name."""
    flagged = series.subject.flagged
    if not flagged:
        return " No finding names a dimension."
    unnamed = len(flagged) - MAX_NAMED
    names = ", ".join(map(str, flagged[:MAX_NAMED])) + (f" and {count(unnamed)} more" if unnamed > 0 else "")
    return f" Marked: {plural(len(flagged), 'dimension')} that findings name ({names})."


def mark_dimensions(figure: Figure, dimensions: Sequence[int], finding_title: str) -> Figure:
    """Return an activation figure with a line at each dimension of a finding, which its table marks, too."""
    lines_note = f"; the first {MAX_LINES} have lines" if len(dimensions) > MAX_LINES else ""
    rows = [[*row, "yes" if row[0] in set(dimensions) else ""] for row in figure.table.rows]
    return replace(
        figure,
        caption=f"{figure.caption} Dotted: {plural(len(dimensions), 'dimension')} of the finding “{finding_title}”"
        f"{lines_note}.",
        table=FigureTable([*figure.table.columns, "in_the_finding"], rows),
        draw=partial(_draw_with_lines, figure.draw, dimensions[:MAX_LINES]),
    )


def _draw_with_lines(draw: Callable[[], go.Figure], dimensions: Sequence[int]) -> go.Figure:
    figure = draw()
    line = {"color": palette.MARKED, "width": 1.5, "dash": "dot"}
    figure.update_layout(shapes=[vertical_line(dimension, line) for dimension in dimensions])
    return figure


def _name_outlier_rules(profile: dict[str, Any]) -> dict[int, list[str]]:
    """Return the names of the rules that flag each outlier, by dimension. Unknown rules keep their slug."""
    return {
        outlier["dimension"]: [OUTLIER_RULES.get(rule, rule) for rule in outlier["rules"]]
        for outlier in profile["outliers"]
    }


def _list_outlier_rules(series: Series) -> list[Cell]:
    rules = _name_outlier_rules(series.detail(PROFILE))
    return ["; ".join(rules.get(i, [])) for i in range(len(series.detail(PROFILE)["mean"]))]


def _draw_activation(overlay: Overlay) -> go.Figure:
    traces = [trace for series in overlay.series for trace in _draw_bands(overlay, series)]
    dimensions = max(len(series.detail(PROFILE)["mean"]) for series in overlay.series)
    y_axis: dict[str, Any] = {"title": {"text": "Activation (band: 1 sd)"}}
    if not overlay.several:
        profile = overlay.series[0].detail(PROFILE)
        tops = [mean + std for mean, std in zip(profile["mean"], profile["std"], strict=True)]
        marks = _mark_flagged(overlay.series[0], tops, size=7)
        traces.append(marks)
        if 0 < len(marks.y) <= MAX_NAMED:
            # Leave room above the highest mark for its name, which plotly does not count.
            low = min(mean - std for mean, std in zip(profile["mean"], profile["std"], strict=True))
            y_axis["autorangeoptions"] = {"include": max(marks.y) + HEADROOM * (max(marks.y) - low)}
    return _plot_by_dimension(traces, overlay, dimensions, y_axis)


def _mark_flagged(series: Series, heights: Sequence[float], size: int, **settings: Any) -> go.Scatter:
    """Return a mark at the height of each dimension that findings name, with its number if there are few."""
    flagged = [i for i in series.subject.flagged if i < len(heights)]
    return go.Scatter(
        x=flagged,
        y=[heights[i] for i in flagged],
        mode="markers+text" if len(flagged) <= MAX_NAMED else "markers",
        marker={"color": palette.MARKED, "size": size},
        text=[str(i) for i in flagged],
        textposition="top center",
        hoverinfo="skip",
        **settings,
    )


def _plot_by_dimension(traces: list[go.Scatter], overlay: Overlay, d: int, y_axis: dict[str, Any]) -> go.Figure:
    x_axis = {"title": {"text": "Dimension"}, "range": [-0.5, d - 0.5]}
    return plot(traces, showlegend=overlay.several, xaxis=x_axis, yaxis=y_axis)


def _draw_bands(overlay: Overlay, series: Series) -> list[go.Scatter]:
    """Return the band of one standard deviation, and the line of means."""
    mean, std = series.detail(PROFILE)["mean"], series.detail(PROFILE)["std"]
    dimensions = list(range(len(mean)))
    low, high = ([center + sign * sd for center, sd in zip(mean, std, strict=True)] for sign in (-1, 1))
    opacity = 0.1 if overlay.several else 0.22
    return [
        *band(dimensions, low, high, series.color, opacity, legendgroup=series.name),
        go.Scatter(
            x=dimensions,
            y=list(mean),
            mode="lines",
            line={"color": series.color, "width": 1.2},
            name=series.label,
            legendgroup=series.name,
            customdata=list(std),
            hovertemplate=overlay.hover_template(series, "dimension %{x:,}<br>mean %{y:.3g}, sd %{customdata:.3g}"),
        ),
    ]


def rogue_dimensions(overlay: Overlay) -> Figure:
    return Figure(
        slug="rogue",
        title="Rogue dimensions",
        caption="What each dimension adds to the mean cosine, "
        f"{overlay.describe_rows(ROGUE)}. "
        f"Largest: {overlay.describe(_name_largest)}.{'' if overlay.several else _describe_flagged(overlay.series[0])}",
        table=overlay.stacked_table(
            {
                "dimension": lambda series: range(len(_read_contributions(series))),
                "contribution": _read_contributions,
                "share_of_mean": _shares_of_mean,
            }
        ),
        draw=partial(_draw_rogue, overlay),
    )


def _read_contributions(series: Series) -> list[float]:
    contributions: list[float] = series.detail(ROGUE)["contributions"]
    return contributions


def _shares_of_mean(series: Series) -> list[float | None]:
    """Return each dimension's share of the mean cosine; None for all if contributions cancel."""
    contributions = _read_contributions(series)
    mean_cosine = sum(contributions)
    has_shares = 0 < max(contributions) <= mean_cosine
    return [contribution / mean_cosine if has_shares else None for contribution in contributions]


def _name_largest(series: Series) -> str:
    contributions, shares = _read_contributions(series), _shares_of_mean(series)
    i = max(range(len(contributions)), key=contributions.__getitem__)
    if contributions[i] <= 0:
        return "none: no dimension adds to it"
    share = "" if shares[i] is None else f", {shares[i]:.0%} of the mean"
    return f"{count(i)} ({number(contributions[i], 2)}{share})"


def _draw_rogue(overlay: Overlay) -> go.Figure:
    dimensions = max(len(_read_contributions(series)) for series in overlay.series)
    # The largest first, so that smaller ones at the same dimension stand in front.
    back_to_front = sorted(overlay.series, key=lambda series: -max(_read_contributions(series)))
    traces = []
    for series in back_to_front:
        contributions = _read_contributions(series)
        shares = ["" if share is None else f", {share:.1%} of the mean" for share in _shares_of_mean(series)]
        # Lines stay at least a pixel wide, while bars of many dimensions would vanish.
        stems = go.Scatter(
            x=[x for i in range(len(contributions)) for x in (i, i, None)],
            y=[y for contribution in contributions for y in (0, contribution, None)],
            mode="lines",
            line={"color": series.color, "width": 1.4},
            name=series.label,
            legendrank=overlay.series.index(series) + 1,
            text=[text for share in shares for text in (share, share, None)],
            hovertemplate=overlay.hover_template(series, "dimension %{x:,}: %{y:.3g}%{text}"),
        )
        traces.append(stems)
    if not overlay.several:
        (series,) = overlay.series
        traces.append(_mark_flagged(series, _read_contributions(series), size=6, showlegend=False, cliponaxis=False))
    return _plot_by_dimension(traces, overlay, dimensions, {"title": {"text": "Contribution to the mean cosine"}})
