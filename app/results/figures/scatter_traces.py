"""The marks of a scatter of settings: means with error bars, their λ, the runs behind them, and quiet lines.

As many traces as colors, not as points: a thousand runs are drawn as fast as ten.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from math import inf, log10
from typing import Any, NamedTuple, TypeVar

import plotly.graph_objects as go

from app.figures import palette
from app.figures.figure import plain, thinned
from app.figures.labels import Named, positions
from app.results.figures import legend
from app.results.figures.legend import LAMBDA, Colouring
from app.results.statistics.estimate import Estimate
from app.results.sweep import Family, Setting, Sweep
from isoscope.core.formatting import number, short, with_error

MOST_NAMED = 24
"""Points of which any but plain training is named; of more λ is told by pointing at them and by the legend."""
MOST_ENTRIES = 8
SIZE, RING, RUN = 11, 19, 6
SHADES, BAR_STEPS = 11, 33
"""Places of the scale of what is measured, from which plotly mixes the others, and steps of the bar beside it."""
EDGE = 0.03
"""What an axis shows beyond the bounds of its quantity, for marks that lie on them."""
Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


class Mark(NamedTuple):
    """A setting at its place, with what is told of it."""

    setting: Setting
    x: Estimate
    y: Estimate
    words: str
    seeds: Sequence[tuple[float | None, float | None, str]] = ()
    """The runs behind it: where they lie, and what is told of them."""
    shade: float | None = None
    """What its color stands for where that is measured."""


class Shades(NamedTuple):
    """Colors that stand for a number, told by a bar beside the plot."""

    title: str
    low: float
    high: float


class Ranges(NamedTuple):
    """What both axes reach from and to."""

    x: list[float]
    y: list[float]


def traces(
    colouring: Colouring,
    marks: Sequence[Mark],
    ranges: Ranges,
    *,
    logs: tuple[bool, bool] = (False, False),
    named: bool = True,
    shades: Shades | None = None,
) -> list[go.Scatter]:
    """Lines by family below, then runs, a ring around plain training, means, and a legend.

    Means are ``named`` by their λ where there is room, unless an axis tells it. With ``shades`` a bar tells colors.
    ``logs`` says which of both axes are logarithmic, with ranges in logarithms.
    """
    names = _names(marks, ranges, logs) if named else []
    told = shades is not None or not named or sum(len(one.x) for one in names) == len(marks)
    coloured = _gathered(marks, lambda mark: palette.QUIET if shades else colouring.colour(mark.setting))
    shaded = [mark for mark in marks if shades and mark.shade is not None]
    unshaded = coloured if not shaded else {palette.QUIET: [mark for mark in marks if mark.shade is None]}
    return [
        *_paths(colouring, marks),
        *(_seeds(alike, colour) for colour, alike in coloured.items() if any(mark.seeds for mark in alike)),
        *_rings([mark for mark in marks if mark.setting.baseline]),
        *(_means(alike, colour, colouring.sweep) for colour, alike in unshaded.items() if alike),
        *([_shaded(shaded, shades, colouring.sweep)] if shades and shaded else []),
        *names,
        *_legend(colouring, marks, told=told),
    ]


def level(marks: Sequence[Mark]) -> list[dict[str, Any]]:
    """A dotted line at the performance of plain training, where that is but one point."""
    plain_ones = [mark for mark in marks if mark.setting.baseline]
    if len(plain_ones) != 1 or len(marks) < 2:
        return []
    y = plain_ones[0].y.mean
    line = {"width": 1, "dash": "dot", "color": palette.QUIET}
    return [{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line, "layer": "below"}]


def span(
    estimates: Iterable[Estimate], values: Iterable[float] = (), bounds: tuple[float, float] = (-inf, inf)
) -> list[float]:
    """The range of an axis, with room for runs, error bars and the names of the outermost points.

    An error bar may reach beyond what the quantity can be; the axis then ends a little beyond these ``bounds``.
    """
    drawn = [*estimates]
    known = [*(one.mean for one in drawn), *values]
    low = min(*known, *(max(one.ends[0], bounds[0]) for one in drawn))
    high = max(*known, *(min(one.ends[1], bounds[1]) for one in drawn))
    room = 0.12 * (high - low) or 0.05
    return [min(low, max(low - room, bounds[0] - EDGE)), max(high, min(high + room, bounds[1] + EDGE))]


def interval(found: Estimate) -> str:
    """A mean with the half-width of its error bar, where there is one."""
    return with_error(found.mean, found.half_width)


def error_bar(*found: Estimate) -> dict[str, Any]:
    """The error bars of points as plotly draws them; invisible where all are of one run."""
    widths = [one.half_width for one in found]
    visible = any(width is not None for width in widths)
    return {"array": widths, "visible": visible, "thickness": 1.2, "width": 3}


def _paths(colouring: Colouring, marks: Sequence[Mark]) -> list[go.Scatter]:
    """A quiet line through the means of each family in the order of λ; those of one color are one trace with gaps."""
    by_colour = _gathered(colouring.sweep.families, colouring.of_family)
    of_family = _gathered(marks, lambda mark: colouring.sweep.family(mark.setting))
    plain_ones = [mark for mark in marks if mark.setting.baseline]
    return [_path([_points(family, of_family.get(family, []), plain_ones, colouring.sweep) for family in alike], colour)
            for colour, alike in by_colour.items()]  # fmt: skip


def _points(family: Family, own: Sequence[Mark], plain_ones: Sequence[Mark], sweep: Sweep) -> list[Mark]:
    """The marks of a line: its own, and plain training that it goes through."""
    through = [mark for mark in plain_ones if mark not in own and sweep.belongs(mark.setting, family)]
    return sorted([*own, *through], key=lambda mark: mark.setting.lam)


def _path(lines: Sequence[Sequence[Mark]], colour: str) -> go.Scatter:
    places = [place for line in lines for place in (*((mark.x.mean, mark.y.mean) for mark in line), (None, None))]
    return go.Scatter(
        x=[x for x, _ in places[:-1]],
        y=[y for _, y in places[:-1]],
        mode="lines",
        line={"color": colour, "width": 0.8},
        showlegend=False,
        hoverinfo="skip",
    )


def _rings(marks: Sequence[Mark]) -> list[go.Scatter]:
    """What tells plain training from all else whatever the colors stand for."""
    if not marks:
        return []
    return [
        go.Scatter(
            x=[mark.x.mean for mark in marks],
            y=[mark.y.mean for mark in marks],
            mode="markers",
            marker={"symbol": "circle-open", "size": RING, "color": palette.QUIET, "line": {"width": 1.5}},
            showlegend=False,
            hoverinfo="skip",
        )
    ]


def _means(marks: Sequence[Mark], colour: str, sweep: Sweep) -> go.Scatter:
    symbols = [legend.symbol(sweep, mark.setting) for mark in marks]
    return go.Scatter(
        x=[mark.x.mean for mark in marks],
        y=[mark.y.mean for mark in marks],
        error_x=error_bar(*(mark.x for mark in marks)),
        error_y=error_bar(*(mark.y for mark in marks)),
        mode="markers",
        marker={"color": colour, "size": SIZE, "symbol": symbols},
        showlegend=False,
        hovertext=[f"{legend.whole(sweep, mark.setting)}<br>{mark.words}" for mark in marks],
        hoverinfo="text",
    )


def _shaded(marks: Sequence[Mark], shades: Shades, sweep: Sweep) -> go.Scatter:
    """Means in colors along an order."""
    steps = [step / (SHADES - 1) for step in range(SHADES)]
    trace = _means(marks, palette.QUIET, sweep)
    trace.marker.update(
        color=[mark.shade for mark in marks],
        cmin=shades.low,
        cmax=shades.high,
        colorscale=[[step, palette.in_order(step)] for step in steps],
    )
    for bars in (trace.error_x, trace.error_y):
        bars.color = palette.QUIET
    return trace


BAR = (1.02, 1.035)
"""Of the width of the plot, beyond it."""
BAR_ROOM = 92
"""Pixels that the bar takes with its numbers."""


def bar(shades: Shades) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The bar that tells colors along an order, as shapes and words beside the plot.

    That of plotly sets style attributes, which the policy of pages forbids.
    """
    steps = [
        {"type": "rect", "xref": "paper", "yref": "paper", "x0": BAR[0], "x1": BAR[1], "y0": step / BAR_STEPS,
         "y1": min((step + 1.5) / BAR_STEPS, 1), "line": {"width": 0},
         "fillcolor": palette.in_order(step / (BAR_STEPS - 1))}
        for step in range(BAR_STEPS)
    ]  # fmt: skip
    words = {"xref": "paper", "yref": "paper", "showarrow": False, "xanchor": "left", "font": {"size": 12}}
    numbers = [
        words
        | {
            "x": BAR[1],
            "y": share,
            "yanchor": anchor,
            "text": number(shades.low + share * (shades.high - shades.low), 2),
        }
        for share, anchor in ((0, "bottom"), (0.5, "middle"), (1, "top"))
    ]
    title = words | {"x": BAR[1], "xshift": 44, "y": 0.5, "yanchor": "middle", "textangle": 90, "text": shades.title}
    return steps, [*numbers, title]


def _names(marks: Sequence[Mark], ranges: Ranges, logs: tuple[bool, bool]) -> list[go.Scatter]:
    """The λ of points beside them where there is room, that of plain training first; what else varies, colors tell."""
    if len(marks) > MOST_NAMED:
        marks = [mark for mark in marks if mark.setting.baseline][:1]
    ordered = sorted(marks, key=lambda mark: not mark.setting.baseline)
    points = []
    for mark in ordered:
        (x, x_bar), (y, y_bar) = (_shown(one, log=log) for one, log in zip((mark.x, mark.y), logs, strict=True))
        points.append(Named(x, y, x_bar, y_bar, f"λ = {short(mark.setting.lam)}"))
    found = positions(points, ranges.x, ranges.y)
    placed = [(mark, point, where) for mark, point, where in zip(ordered, points, found, strict=True) if where]
    if not placed:
        return []
    return [
        go.Scatter(
            x=[mark.x.mean for mark, _, _ in placed],
            y=[mark.y.mean for mark, _, _ in placed],
            mode="markers+text",
            marker={"color": "rgba(0, 0, 0, 0)", "size": SIZE},
            text=[point.name for _, point, _ in placed],
            textposition=[where for _, _, where in placed],
            showlegend=False,
            hoverinfo="skip",
        )
    ]


def _shown(found: Estimate, *, log: bool) -> tuple[float, float]:
    """Where a mean is drawn along an axis, and how far its error bar reaches."""
    if not log:
        return found.mean, found.half_width or 0
    return log10(found.mean), log10(found.ends[1]) - log10(found.mean)


def _seeds(marks: Sequence[Mark], colour: str) -> go.Scatter:
    runs = [run for mark in marks for run in mark.seeds]
    return go.Scatter(
        x=[x for x, _, _ in runs],
        y=[y for _, y, _ in runs],
        mode="markers",
        marker={"color": colour, "size": RUN, "symbol": "circle-open"},
        showlegend=False,
        hovertext=[words for _, _, words in runs],
        hoverinfo="text",
    )


def _legend(colouring: Colouring, marks: Sequence[Mark], *, told: bool) -> list[go.Scatter]:
    """An entry for each family; of one, or of many, for each color, unless that is λ and ``told`` anyway."""
    sweep = colouring.sweep
    if 1 < len(sweep.families) <= MOST_ENTRIES:
        return [
            _entry(
                name,
                colouring.of_family(family),
                legend.symbol(sweep, Setting(family.regularizer, 1.0, family.zeta, family.values)),
            )
            for name, family in zip(
                legend.names(sweep, sweep.families, sweep.family_label), sweep.families, strict=True
            )
        ]
    if told and colouring.key == LAMBDA:
        return []
    entries = [*{colouring.label(mark.setting): colouring.colour(mark.setting) for mark in marks}.items()]
    shown = entries[:MOST_ENTRIES] if colouring.key in sweep.fields else thinned(entries, MOST_ENTRIES)
    return [_entry(plain(name, legend.LONGEST_NAME), colour, "circle") for name, colour in shown]


def _entry(name: str, colour: str, symbol: str) -> go.Scatter:
    """What draws nothing but a line of the legend."""
    return go.Scatter(
        x=[None],
        y=[None],
        mode="markers",
        marker={"color": colour, "symbol": symbol, "size": 9},
        name=name,
        showlegend=True,
    )


def _gathered(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    gathered: dict[Key, list[Item]] = {}
    for item in items:
        gathered.setdefault(key(item), []).append(item)
    return gathered
