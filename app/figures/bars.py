"""Methods side by side: of each its best λ below zero and above, beside plain training."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import plotly.graph_objects as go

from app.db.regularizer_options import Regularizer
from app.figures import legend, palette
from app.figures.figure import Figure, Table, plain, plot
from app.figures.marks import error_bar
from app.figures.trivial import Trivial
from app.regularizers import NAMES
from app.results.metrics import SCALES
from app.results.points import Point, averaged, cells, empty, given_up, points_of, scored, unscored
from app.results.statistics.estimate import Estimate
from app.results.sweep import Sweep
from isoscope.core.formatting import count, number

LONGEST_NAME = 40
ROOM = 0.22
"""Of the axis, for a number beyond the longest bar."""


class Bar(NamedTuple):
    """The best of the settings of a method on one side of zero."""

    method: str
    best: Point
    among: int


def method_bars(sweep: Sweep, metric: str) -> Figure:
    """Performance of each method at the setting with the greatest mean."""
    points = points_of(sweep, scored(sweep))
    bars = list(_bars([point for point in points if point.setting not in sweep.given_up]))
    flattered = given_up(sweep, "Left out")
    trivial = Trivial.of(sweep, [run for bar in bars for run in bar.best.runs])
    chosen = any(bar.among > 1 for bar in bars)
    return Figure(
        slug="methods",
        title="Performance by method",
        caption=_caption(bars, chosen) + trivial.caption(sweep) + flattered + unscored(sweep) if bars else "",
        table=Table(
            [
                "method",
                *sweep.columns,
                "settings",
                "seeds",
                "performance_mean",
                "performance_ci95_half_width",
                *trivial.columns,
            ],
            [
                [
                    bar.method,
                    *sweep.cells(bar.best.setting),
                    bar.among,
                    bar.best.performance.n,
                    *cells(bar.best.performance),
                    *trivial.cells(bar.best.setting),
                ]
                for bar in bars
            ],
        ),
        draw=partial(_draw, sweep, bars, metric, trivial),
        empty=None if bars else flattered.strip() or empty(sweep),
    )


def _bars(points: Sequence[Point]) -> Iterator[Bar]:
    """λ below zero, plain training, λ above zero: from the least isotropy asked for to the most."""
    for sign, side_words in ((-1, ", λ < 0"), (0, ""), (1, ", λ > 0")):
        for name in Regularizer:
            side = [point for point in points if point.setting.regularizer is name and _sign(point.setting.lam) == sign]
            if side:
                yield Bar(NAMES[name] + side_words, max(side, key=lambda point: point.performance.mean), len(side))


def _sign(lam: float) -> int:
    return (lam > 0) - (lam < 0)


def _caption(bars: Sequence[Bar], chosen: bool) -> str:
    means = averaged([bar.best.performance.n for bar in bars])
    if not chosen:
        return means
    most = max(bar.among for bar in bars)
    return (
        f"{means} Each bar is the best of up to {count(most)} settings, chosen on the same rows. Methods with more "
        "settings look better. Compare them on a test split."
    )


def _draw(sweep: Sweep, bars: Sequence[Bar], metric: str, trivial: Trivial) -> go.Figure:
    scale = SCALES[metric]
    found = [bar.best.performance for bar in bars]
    across = trivial.widened(_range(found))
    line = trivial.line(across, "x")
    crosses = trivial.crosses([(bar.best.setting, bar.best.performance.mean, place) for place, bar in enumerate(bars)])
    return plot(
        [
            *(go.Bar(
                x=[bar.best.performance.mean],
                y=[place],
                orientation="h",
                width=0.6,
                error_x=error_bar(bar.best.performance) | {"color": palette.QUIET},
                marker={"color": legend.colour(sweep, bar.best.setting)},
                hovertext=f"{legend.whole(sweep, bar.best.setting)}<br>best of {count(bar.among)}"
                f"<br>{number(bar.best.performance.mean, 4)}{trivial.words(bar.best.setting)}",
                hoverinfo="text",
            )
            for place, bar in enumerate(bars)),
            *crosses,
        ],
        shapes=line["shapes"],
        annotations=[
            *line["annotations"],
            *({"x": _end(one), "y": place, "text": f" {number(one.mean)} ", "showarrow": False,
             "xanchor": "right" if one.mean < 0 else "left"}
            for place, one in enumerate(found)),
        ],
        xaxis={"title": {"text": f"{scale.title} ({scale.range})"},
               "range": across},
        yaxis={"tickvals": list(range(len(bars))), "ticktext": [_tick(sweep, bar) for bar in bars],
               "autorange": "reversed", "ticks": "", "showgrid": False},
    )  # fmt: skip


def _end(found: Estimate) -> float:
    """Where a bar with its interval ends, and its number begins: away from zero."""
    reach = found.half_width or 0
    return found.mean - reach if found.mean < 0 else found.mean + reach


def _range(found: Sequence[Estimate]) -> list[float]:
    """All bars with their intervals, and room for their numbers on the sides that have some."""
    reaches = [end for one in found for end in (one.mean - (one.half_width or 0), one.mean + (one.half_width or 0))]
    low, high = min(0.0, *reaches), max(0.0, *reaches)
    room = ROOM * (high - low) or 1.0
    below = room if any(one.mean < 0 for one in found) else 0.1 * -low
    return [low - below, high + room if any(one.mean >= 0 for one in found) else high]


def _tick(sweep: Sweep, bar: Bar) -> str:
    """The method at its one setting; or the method, and below it which of several was best."""
    name = NAMES[bar.best.setting.regularizer]
    words = sweep.label(bar.best.setting).removeprefix(name).removeprefix(", ")
    if bar.among == 1:
        return name if bar.best.setting.baseline else plain(f"{name}, {words}", LONGEST_NAME)
    return f"{bar.method}<br>{plain(words, LONGEST_NAME)}"
