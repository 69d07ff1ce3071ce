"""The marks of a scatter of settings: means with intervals, their λ, the runs behind them, and quiet lines."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from app.figures import legend, palette
from app.figures.figure import plain
from app.figures.setting import Family, Setting
from app.figures.stats import Estimate
from app.figures.sweep import Sweep
from app.numerals import number, short

MOST_NAMED = 14
"""Points that have room for their λ; of more it is told by pointing at them."""
LONGEST_NAME = 44


class Mark(NamedTuple):
    """A setting at its place, with what is told of it."""

    setting: Setting
    x: Estimate
    y: Estimate
    words: str
    seeds: Sequence[tuple[float | None, float | None, str]] = ()
    """The runs behind it: where they lie, and what is told of them."""


def traces(sweep: Sweep, marks: Sequence[Mark]) -> list[go.Scatter]:
    """Lines by family below, then runs, means and their λ, and a legend where there are several families."""
    lines = [_path(family, [mark for mark in marks if sweep.belongs(mark.setting, family)], sweep)
             for family in sweep.families]  # fmt: skip
    return [
        *lines,
        *(_seeds(mark, legend.colour(sweep, mark.setting)) for mark in marks if mark.seeds),
        *(_mean(mark, sweep) for mark in marks),
        *(_name(mark, sweep) for mark in marks if len(marks) <= MOST_NAMED),
        *_legend(sweep),
    ]


def span(estimates: Iterable[Estimate], values: Iterable[float] = ()) -> list[float]:
    """The range of an axis, with room for runs, error bars and the names of the outermost points."""
    ends = [end for one in estimates for end in (one.mean - (one.half_width or 0), one.mean + (one.half_width or 0))]
    low, high = min(*ends, *values), max(*ends, *values)
    room = 0.12 * (high - low) or 0.05
    return [low - room, high + 1.5 * room]


def interval(found: Estimate) -> str:
    """A mean with the half-width of its interval, where there is one."""
    return number(found.mean) + (f" ± {number(found.half_width, 2)}" if found.half_width is not None else "")


def error_bar(found: Estimate) -> dict[str, Any]:
    """The interval as plotly draws it; invisible of one run."""
    visible = found.half_width is not None
    return {"array": [found.half_width], "visible": visible, "thickness": 1.2, "width": 3}


def _path(family: Family, marks: Sequence[Mark], sweep: Sweep) -> go.Scatter:
    """A quiet line through the means in the order of λ."""
    return go.Scatter(
        x=[mark.x.mean for mark in marks],
        y=[mark.y.mean for mark in marks],
        mode="lines",
        line={"color": palette.faded(palette.QUIET, 0.5), "width": 1},
        name=sweep.family_label(family),
        showlegend=False,
        hoverinfo="skip",
    )


def _mean(mark: Mark, sweep: Sweep) -> go.Scatter:
    return go.Scatter(
        x=[mark.x.mean],
        y=[mark.y.mean],
        error_x=error_bar(mark.x),
        error_y=error_bar(mark.y),
        mode="markers",
        marker={"color": legend.colour(sweep, mark.setting), "size": 11, "symbol": legend.symbol(sweep, mark.setting)},
        showlegend=False,
        hovertext=f"{plain(sweep.label(mark.setting), 120)}<br>{mark.words}",
        hoverinfo="text",
    )


def _name(mark: Mark, sweep: Sweep) -> go.Scatter:
    """The λ of a point, above its error bar; what else varies, the legend tells."""
    return go.Scatter(
        x=[mark.x.mean],
        y=[mark.y.mean + (mark.y.half_width or 0)],
        mode="markers+text",
        marker={"color": "rgba(0, 0, 0, 0)", "size": 11},
        text=[f"λ = {short(mark.setting.lam)}"],
        textposition="top center",
        showlegend=False,
        hoverinfo="skip",
    )


def _seeds(mark: Mark, colour: str) -> go.Scatter:
    return go.Scatter(
        x=[x for x, _, _ in mark.seeds],
        y=[y for _, y, _ in mark.seeds],
        mode="markers",
        marker={"color": colour, "size": 6, "opacity": 0.55, "symbol": "circle-open"},
        showlegend=False,
        hovertext=[words for _, _, words in mark.seeds],
        hoverinfo="text",
    )


def _legend(sweep: Sweep) -> list[go.Scatter]:
    """An entry for each family, which draws nothing."""
    if len(sweep.families) < 2:
        return []
    several = len(sweep.methods) > 1
    return [
        go.Scatter(
            x=[None],
            y=[None],
            mode="markers",
            marker={
                "color": palette.METHODS[family.regularizer] if several else palette.QUIET,
                "symbol": legend.symbol(sweep, Setting(family.regularizer, 0.0, family.zeta, family.values)),
                "size": 9,
            },
            name=plain(sweep.family_label(family), LONGEST_NAME),
            showlegend=True,
        )
        for family in sweep.families
    ]
