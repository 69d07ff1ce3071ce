"""The activation profile: mean and spread of each dimension, and the dimensions that stand out."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import plotly.graph_objects as go

from app.figures import palette
from app.figures.figure import Figure, Table, plot
from app.numerals import count, plural
from isotropy.catalog import OUTLIER_RULES

MAX_NAMED = 8


def activation(profile: dict[str, Any], n: int) -> Figure:
    """Mean and one standard deviation either side of each dimension; outlier dimensions marked."""
    mean, std = profile["mean"], profile["std"]
    outliers = outlier_rules(profile)
    return Figure(
        slug="activation",
        title="Activation by dimension",
        caption=f"Mean of each dimension (line) and one standard deviation either side (band), "
        f"n = {count(n)} rows. {_name_outliers(list(outliers))}",
        table=Table(
            ["dimension", "mean", "standard_deviation", "outlier_by"],
            [[i, mean[i], std[i], "; ".join(outliers.get(i, []))] for i in range(len(mean))],
        ),
        draw=partial(_draw_activation, mean, std, list(outliers)),
    )


def outlier_rules(profile: dict[str, Any]) -> dict[int, list[str]]:
    """The dimensions that stand out, each with the rules that flag it; a rule of another version by its slug."""
    return {one["dimension"]: [OUTLIER_RULES.get(rule, rule) for rule in one["rules"]] for one in profile["outliers"]}


def _name_outliers(outliers: list[int]) -> str:
    if not outliers:
        return "No outlier rule flags a dimension."
    named = ", ".join(str(i) for i in outliers[:MAX_NAMED])
    more = f" and {count(len(outliers) - MAX_NAMED)} more" if len(outliers) > MAX_NAMED else ""
    found = plural(len(outliers), "dimension")
    return f"Marked: {found} that some outlier rule flags ({named}{more}); the numbers say which rules."


def _draw_activation(mean: Sequence[float], std: Sequence[float], outliers: Sequence[int]) -> go.Figure:
    dimensions = list(range(len(mean)))
    low = [m - s for m, s in zip(mean, std, strict=True)]
    high = [m + s for m, s in zip(mean, std, strict=True)]
    edge = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    band = {"fill": "tonexty", "fillcolor": palette.faded(palette.MAIN, 0.22)}
    marks = go.Scatter(
        x=list(outliers),
        y=[high[i] for i in outliers],
        mode="markers+text" if len(outliers) <= MAX_NAMED else "markers",
        marker={"color": palette.MARKED, "size": 7},
        text=[str(i) for i in outliers],
        textposition="top center",
        hoverinfo="skip",
    )
    return plot(
        [
            go.Scatter(x=dimensions, y=low, **edge),
            go.Scatter(x=dimensions, y=high, **band, **edge),
            go.Scatter(
                x=dimensions,
                y=list(mean),
                mode="lines",
                line={"color": palette.MAIN, "width": 1.2},
                customdata=list(std),
                hovertemplate="dimension %{x}<br>mean %{y:.3g}, sd %{customdata:.3g}<extra></extra>",
            ),
            marks,
        ],
        xaxis={"title": {"text": "Dimension"}, "range": [-0.5, len(mean) - 0.5]},
        yaxis={"title": {"text": "Activation, mean ± 1 sd"}},
    )
