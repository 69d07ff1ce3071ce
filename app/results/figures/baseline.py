"""Settings against lambda = 0: each method's best, and every difference with its interval."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import plotly.graph_objects as go

from app.db.options.regularization import NAMES
from app.figures import palette
from app.figures.figure import Figure, Table, plain, plot
from app.results.conclusion.comparisons import Comparison
from app.results.conclusion.verdict_words import interval, signed
from app.results.figures import legend
from app.results.figures.scatter_traces import error_bar
from app.results.labels import SCALES
from app.results.points import Point, Trivial, averaged, cells, empty, given_up, points_of, scored, unscored
from app.results.statistics.estimate import Estimate
from app.results.statistics.verdict import Verdict
from app.results.sweep import Sweep
from isoscope.core.formatting import count, number, plural
from isotropy.catalog import Regularizer

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
    trivial = Trivial.from_runs(sweep, [run for bar in bars for run in bar.best.runs])
    chosen = any(bar.among > 1 for bar in bars)
    return Figure(
        slug="methods",
        title="Performance by method",
        caption=_bars_caption(bars, chosen) + trivial.caption(sweep) + flattered + unscored(sweep) if bars else "",
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
        draw=partial(_draw_bars, sweep, bars, metric, trivial),
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


def _bars_caption(bars: Sequence[Bar], chosen: bool) -> str:
    means = averaged([bar.best.performance.n for bar in bars])
    if not chosen:
        return means
    most = max(bar.among for bar in bars)
    return (
        f"{means} Each bar is the best of up to {count(most)} settings, chosen on the same rows. Methods with more "
        "settings look better. Compare them on a test split."
    )


def _draw_bars(sweep: Sweep, bars: Sequence[Bar], metric: str, trivial: Trivial) -> go.Figure:
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
                f"<br>{number(bar.best.performance.mean, 4)}{trivial.describe(bar.best.setting)}",
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


MOST = 60
"""Settings that one plot shows; the table has all."""
COLUMNS = [
    "verdict", "difference", "low", "high", "p", "p_adjusted", "comparisons", "error_of", "seeds", "rows",
    "p_exact", "p_exact_holm",
]  # fmt: skip


def differences(sweep: Sweep, found: Sequence[Comparison], metric: str) -> Figure:
    """Return mean differences in performance with simultaneous 95% intervals, one row a setting."""
    return Figure(
        slug="differences",
        title="Difference from λ = 0",
        caption=_differences_caption(found),
        table=Table([*sweep.columns, *COLUMNS], [[*sweep.cells(one.setting), *_cells(one)] for one in found]),
        draw=partial(_draw_differences, sweep, found[:MOST], metric),
        empty=None if found else _empty(sweep),
    )


def _empty(sweep: Sweep) -> str:
    waits = any(not run.status.final for run in sweep.runs)
    return empty(sweep) if waits else "No setting has a run at λ = 0 with the same seed to be compared with."


def _differences_caption(found: Sequence[Comparison]) -> str:
    if not found:
        return ""
    several = max(one.judged.comparisons for one in found)
    at_once = f", simultaneous over {count(several)} comparisons" if several > 1 else ""
    bars = f"Bars are 95% intervals{at_once}: a bar that excludes 0 is a verdict."
    few = [one for one in found if one.judged.low is None]
    lacking = f" {plural(len(few), 'setting')} without a bar: too few seeds, or no row differs." if few else ""
    cut = f" The first {MOST} of {count(len(found))} settings are drawn." if len(found) > MOST else ""
    return bars + lacking + cut


def _cells(one: Comparison) -> list[str | float | None]:
    judged = one.judged
    return [
        judged.verdict.value, one.estimate, judged.low, judged.high, judged.p, judged.p_adjusted, judged.comparisons,
        one.method.value, len(one.seeds), one.rows, one.flips.p, one.p_holm,
    ]  # fmt: skip


def _draw_differences(sweep: Sweep, found: Sequence[Comparison], metric: str) -> go.Figure:
    places = list(range(len(found)))
    decided = [one.judged.verdict in (Verdict.BETTER, Verdict.WORSE) for one in found]
    return plot(
        [
            go.Scatter(
                x=[one.estimate],
                y=[place],
                mode="markers",
                marker={
                    "color": legend.colour(sweep, one.setting),
                    "size": 11,
                    "symbol": "circle" if of_one else "circle-open",
                    "line": {"width": 2},
                },
                error_x=_bar(one),
                hovertext=_hover(one),
                hoverinfo="text",
            )
            for place, one, of_one in zip(places, found, decided, strict=True)
        ],
        shapes=[{"type": "line", "x0": 0, "x1": 0, "yref": "paper", "y0": 0, "y1": 1,
                 "line": {"color": palette.QUIET, "dash": "dot", "width": 1}, "layer": "below"}],
        xaxis={"title": {"text": f"Difference in {SCALES[metric].title} from λ = 0"}},
        yaxis={"tickvals": places, "ticktext": [plain(one.label, LONGEST_NAME) for one in found],
               "range": [len(found) - 0.5, -0.5], "ticks": "", "showgrid": False},
    )  # fmt: skip


def _bar(one: Comparison) -> dict[str, object]:
    if one.judged.high is None:
        return {"visible": False}
    half = one.judged.high - one.estimate
    return {"type": "data", "array": [half], "color": palette.QUIET, "thickness": 2, "width": 5}


def _hover(one: Comparison) -> str:
    judged = one.judged
    told = interval(judged.low, judged.high) if judged.low is not None and judged.high is not None else "no interval"
    size = plural(len(one.seeds), "seed") + (f" × {plural(one.rows, 'row')}" if one.rows is not None else "")
    return f"{plain(one.label, LONGEST_NAME)}: {judged.verdict.value}<br>{signed(one.estimate)} {told}<br>{size}"
