"""Figures by dimension: the activation profile, and what each dimension adds to the mean cosine."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import plotly.graph_objects as go

from app.embeddings.figures.overlay import Overlay, Series
from app.figures import palette
from app.figures.figure import Cell, Figure, Table, plot
from isoscope.core.formatting import count, number, plural
from isotropy.catalog import OUTLIER_RULES

PROFILE = "activation_profile"
ACTIVATION = "activation"
MAX_NAMED = 8
MAX_LINES = 100
HEADROOM = 0.1
"""Of the plot's height, for the name of an outlier at its top."""


def activation(overlay: Overlay) -> Figure:
    """Mean and one standard deviation either side of each dimension; of one subject, its outlier dimensions marked."""
    what = "Mean of each dimension (line) with one standard deviation on each side (band)"
    marked = "" if overlay.several else f" {_name_outliers(list(outlier_rules(overlay.series[0].of(PROFILE))))}"
    return Figure(
        slug=ACTIVATION,
        title="Activation by dimension",
        caption=f"{what}, {overlay.rows(lambda one: one.n(PROFILE))}.{marked}",
        table=_table(overlay),
        draw=partial(_draw_activation, overlay),
    )


def marking(figure: Figure, dimensions: Sequence[int], finding: str) -> Figure:
    """Return the activation figure with a line at each dimension that a finding names."""
    named = set(dimensions)
    more = f"; the first {MAX_LINES} have lines" if len(dimensions) > MAX_LINES else ""
    rows = [[*row, "yes" if row[0] in named else ""] for row in figure.table.rows]
    return replace(
        figure,
        caption=f"{figure.caption} Dotted: {plural(len(dimensions), 'dimension')} of the finding “{finding}”{more}.",
        table=Table([*figure.table.columns, "in_the_finding"], rows),
        draw=partial(_draw_with_lines, figure.draw, dimensions[:MAX_LINES]),
    )


def _draw_with_lines(draw: Callable[[], go.Figure], dimensions: Sequence[int]) -> go.Figure:
    drawn = draw()
    line = {"color": palette.MARKED, "width": 1.5, "dash": "dot"}
    across = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "line": line, "layer": "below"}
    drawn.update_layout(shapes=[across | {"x0": one, "x1": one} for one in dimensions])
    return drawn


def outlier_rules(profile: dict[str, Any]) -> dict[int, list[str]]:
    """The dimensions that stand out, each with the rules that flag it; a rule of another version by its slug."""
    return {one["dimension"]: [OUTLIER_RULES.get(rule, rule) for rule in one["rules"]] for one in profile["outliers"]}


def _table(overlay: Overlay) -> Table:
    def flagged(one: Series) -> list[Cell]:
        rules = outlier_rules(one.of(PROFILE))
        return ["; ".join(rules.get(i, [])) for i in range(len(one.of(PROFILE)["mean"]))]

    columns = {
        "mean": lambda one: one.of(PROFILE)["mean"],
        "standard_deviation": lambda one: one.of(PROFILE)["std"],
        "outlier_by": flagged,
    }
    return overlay.table("dimension", columns, start=0)


def _name_outliers(outliers: list[int]) -> str:
    if not outliers:
        return "No rule flags a dimension as an outlier."
    named = ", ".join(str(i) for i in outliers[:MAX_NAMED])
    more = f" and {count(len(outliers) - MAX_NAMED)} more" if len(outliers) > MAX_NAMED else ""
    found = plural(len(outliers), "dimension")
    return f"Marked: {found} flagged by an outlier rule ({named}{more}); the numbers show which."


def _draw_activation(overlay: Overlay) -> go.Figure:
    traces = [trace for one in overlay.series for trace in _bands(overlay, one)]
    longest = max(len(one.of(PROFILE)["mean"]) for one in overlay.series)
    return plot(
        [*traces, *([] if overlay.several else [_marks(overlay.series[0])])],
        showlegend=overlay.several,
        xaxis={"title": {"text": "Dimension"}, "range": [-0.5, longest - 0.5]},
        yaxis={"title": {"text": "Activation, mean ± 1 sd"}}
        | ({} if overlay.several else _headroom(overlay.series[0])),
    )


def _headroom(one: Series) -> dict[str, Any]:
    """Room above the highest mark, whose name plotly does not count when it chooses the range."""
    profile = one.of(PROFILE)
    tops = [profile["mean"][i] + profile["std"][i] for i in outlier_rules(profile)]
    if not 0 < len(tops) <= MAX_NAMED:
        return {}
    low = min(mean - std for mean, std in zip(profile["mean"], profile["std"], strict=True))
    return {"autorangeoptions": {"include": max(tops) + HEADROOM * (max(tops) - low)}}


def _bands(overlay: Overlay, one: Series) -> list[go.Scatter]:
    """The lower edge of the band, the upper one that fills down to it, and the line of the means."""
    mean, std = one.of(PROFILE)["mean"], one.of(PROFILE)["std"]
    dimensions = list(range(len(mean)))
    edge = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False, "legendgroup": one.name}
    return [
        go.Scatter(x=dimensions, y=[m - s for m, s in zip(mean, std, strict=True)], **edge),
        go.Scatter(
            x=dimensions,
            y=[m + s for m, s in zip(mean, std, strict=True)],
            fill="tonexty",
            fillcolor=palette.faded(one.colour, 0.1 if overlay.several else 0.22),
            **edge,
        ),
        go.Scatter(
            x=dimensions,
            y=list(mean),
            mode="lines",
            line={"color": one.colour, "width": 1.2},
            name=one.label,
            legendgroup=one.name,
            customdata=list(std),
            hovertemplate=overlay.hover(one, "dimension %{x:,}<br>mean %{y:.3g}, sd %{customdata:.3g}"),
        ),
    ]


def _marks(one: Series) -> go.Scatter:
    """A dot above the band of each outlier dimension."""
    profile = one.of(PROFILE)
    outliers = list(outlier_rules(profile))
    return go.Scatter(
        x=outliers,
        y=[profile["mean"][i] + profile["std"][i] for i in outliers],
        mode="markers+text" if len(outliers) <= MAX_NAMED else "markers",
        marker={"color": palette.MARKED, "size": 7},
        text=[str(i) for i in outliers],
        textposition="top center",
        hoverinfo="skip",
    )


ROGUE = "rogue_dimensions"
NAMED = 3
LEAST_GAP = 0.04
"""Of the axis, between two names."""


def rogue(overlay: Overlay) -> Figure:
    """The contribution of each dimension to the mean cosine, the greatest named."""
    return Figure(
        slug="rogue",
        title="Rogue dimensions",
        caption=f"What each dimension adds to the mean cosine, {overlay.rows(lambda one: one.n(ROGUE))}. "
        f"Greatest: {overlay.each(partial(_name_greatest, 1 if overlay.several else NAMED))}.",
        table=overlay.stacked(
            {
                "dimension": lambda one: range(len(_contributions(one))),
                "contribution": _contributions,
                "share_of_mean": _shares,
            }
        ),
        draw=partial(_draw_rogue, overlay),
    )


def _contributions(one: Series) -> list[float]:
    contributions: list[float] = one.of(ROGUE)["contributions"]
    return contributions


def _greatest(one: Series, most: int = NAMED) -> list[int]:
    """The dimensions that add most, greatest first, of those that add anything."""
    contributions = _contributions(one)
    order = sorted(range(len(contributions)), key=lambda i: -contributions[i])
    return [i for i in order[:most] if contributions[i] > 0]


def _whole(one: Series) -> float | None:
    """The mean cosine, where contributions are shares of it: not where positive and negative ones cancel."""
    contributions = _contributions(one)
    whole = sum(contributions)
    return whole if 0 < max(contributions) <= whole else None


def _name_greatest(most: int, one: Series) -> str:
    contributions, whole = _contributions(one), _whole(one)
    named = ", ".join(
        f"{count(i)} ({number(contributions[i], 2)}"
        + (f", {contributions[i] / whole:.0%} of the mean)" if whole else ")")
        for i in _greatest(one, most)
    )
    return named or "none: no dimension adds to it"


def _shares(one: Series) -> list[float | None]:
    whole = _whole(one)
    return [contribution / whole if whole else None for contribution in _contributions(one)]


def _draw_rogue(overlay: Overlay) -> go.Figure:
    longest = max(len(_contributions(one)) for one in overlay.series)
    # The greatest first, so that lesser ones at the same dimension stand in front.
    order = sorted(overlay.series, key=lambda one: -max(_contributions(one)))
    names = [] if overlay.several else [_names(overlay.series[0])]
    return plot(
        [*(_stems(overlay, one) for one in order), *names],
        showlegend=overlay.several,
        xaxis={"title": {"text": "Dimension"}, "range": [-0.5, longest - 0.5]},
        yaxis={"title": {"text": "Contribution to the mean cosine"}},
    )


def _stems(overlay: Overlay, one: Series) -> go.Scatter:
    """A line up from zero for each dimension, which however many there are stays at least a pixel wide."""
    contributions, whole = _contributions(one), _whole(one)
    share = [f", {contribution / whole:.1%} of the mean" if whole else "" for contribution in contributions]
    return go.Scatter(
        x=[x for i in range(len(contributions)) for x in (i, i, None)],
        y=[y for contribution in contributions for y in (0, contribution, None)],
        mode="lines",
        line={"color": one.colour, "width": 1.4},
        name=one.label,
        legendrank=overlay.series.index(one) + 1,
        text=[word for words in share for word in (words, words, None)],
        hovertemplate=overlay.hover(one, "dimension %{x:,}: %{y:.3g}%{text}"),
    )


def _names(one: Series) -> go.Scatter:
    """The numbers of the greatest at their ends, but for one that would cover a greater one's."""
    contributions, greatest = _contributions(one), _greatest(one)
    room = LEAST_GAP * len(contributions)
    named = [i for place, i in enumerate(greatest) if all(abs(i - other) >= room for other in greatest[:place])]
    return go.Scatter(
        x=named,
        y=[contributions[i] for i in named],
        mode="markers+text",
        marker={"color": palette.MARKED, "size": 6},
        text=[str(i) for i in named],
        textposition="top center",
        hoverinfo="skip",
        showlegend=False,
        cliponaxis=False,
    )
