"""The two views of a sweep: performance by isotropy and by λ, as means over seeds with error bars."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import plotly.graph_objects as go

from app.figures import legend, marks, palette
from app.figures.colouring import Colouring
from app.figures.figure import Figure, plot, thinned
from app.figures.marks import Mark, Ranges, interval
from app.figures.trivial import Trivial
from app.results.captions import by_scripts
from app.results.metrics import SCALES, MetricRange
from app.results.points import Point, empty, finished, given_up, how_many, points_of, scored, table, unscored
from app.results.statistics.estimate import Error, Estimate
from app.results.sweep import Sweep
from isoscope.core.formatting import count, number, plural, short

MAX_NAMED = 5
WIDEST_STEP = 0.5
"""Of the step from one λ to the next, what its points take up side by side."""
MOST_TICKS = 15
"""Of an axis of λ: of more values some are told by pointing alone."""


class Look(NamedTuple):
    """How the scatters of a sweep are wanted."""

    seeds: bool = False
    """The runs behind the means, too."""
    error: Error = Error.CI95
    colour: str = ""
    """What colours stand for: one of ``colouring.choices``; else the usual."""


USUAL = Look()


def isotropy_performance(sweep: Sweep, metric: str, look: Look = USUAL) -> Figure:
    """Performance over IsoScore*, one point for each setting. ``metric`` names one of ``SCALES``."""
    points = points_of(sweep, [run for run in scored(sweep) if run.isoscore_star is not None], look.error)
    trivial = Trivial.of(sweep, finished(sweep))
    first = f"IsoScore★ is {by_scripts(sweep.runs, 'of the validation tokens')}. "
    return Figure(
        slug="isotropy",
        title="Performance by isotropy",
        caption=_caption(sweep, points, look.error, first, "on both axes ", trivial) + _left_out(sweep),
        table=table(sweep, points, look.error, trivial, seeds=look.seeds),
        draw=partial(_draw_isotropy, sweep, points, SCALES[metric], look, trivial),
        empty=None if points else _left_out(sweep).strip() or empty(sweep),
    )


def lambda_performance(sweep: Sweep, metric: str, look: Look = USUAL) -> Figure:
    """Performance over λ at equal steps, λ = 0 marked."""
    points = points_of(sweep, scored(sweep), look.error)
    first = "" if sweep.searched else "λ values are equally spaced. "
    trivial = Trivial.of(sweep, finished(sweep))
    return Figure(
        slug="lambda",
        title="Performance by λ",
        caption=_caption(sweep, points, look.error, first, "", trivial) + unscored(sweep),
        table=table(sweep, points, look.error, trivial, seeds=look.seeds),
        draw=partial(_draw_lambda, sweep, points, SCALES[metric], look, trivial),
        empty=None if points else empty(sweep),
    )


def _caption(sweep: Sweep, points: Sequence[Point], error: Error, first: str, where: str, trivial: Trivial) -> str:
    if not points:
        return ""
    sizes = [point.performance.n for point in points]
    lines = " Lines connect settings that differ only in λ." if len(sweep.families) > 1 else ""
    ring = " Ring and dotted line: λ = 0." if any(point.setting.baseline for point in points) else ""
    of = f"Points are means over seeds ({how_many(sizes)}); bars {where}are {error.words}."
    if max(sizes) == 1:
        of = "Each point is of one seed (n = 1 seed); error bars need two seeds or more."
    return f"{first}{of}{lines}{ring}{trivial.caption(sweep)}{given_up(sweep, 'Read with care')}"


def _left_out(sweep: Sweep) -> str:
    """Which finished runs have no place on one of the axes, and the reason of the first."""
    by_setting = sweep.by_setting(scored(sweep))
    left_out = [run for runs in by_setting.values() for run in runs if run.isoscore_star is None]
    if not left_out:
        return unscored(sweep)
    named = ", ".join(f"{sweep.label(sweep.setting(run))} seed {run.seed}" for run in left_out[:MAX_NAMED])
    more = f" and {count(len(left_out) - MAX_NAMED)} more" if len(left_out) > MAX_NAMED else ""
    return (
        f"{unscored(sweep)} Not drawn, because IsoScore★ is undefined: {named}{more}. "
        f"{left_out[0].isoscore_star_reason}"
    )


def _draw_isotropy(
    sweep: Sweep, points: Sequence[Point], scale: MetricRange, look: Look, trivial: Trivial
) -> go.Figure:
    placed = [(point, point.isotropy) for point in points if point.isotropy is not None]
    drawn = [
        Mark(
            point.setting,
            isotropy,
            point.performance,
            _words(point) + trivial.words(point.setting),
            _runs(sweep, point) if look.seeds else (),
        )
        for point, isotropy in placed
    ]
    across = marks.span([isotropy for _, isotropy in placed], _known(points, "isoscore_star") if look.seeds else ())
    ranges = Ranges(across, trivial.widened(_performance_span(points, scale, look)))
    traces = marks.traces(Colouring(sweep, look.colour), drawn, ranges)
    means = [(mark.x.mean, mark.y.mean) for mark in drawn]
    line = trivial.line(ranges.y, across_range=ranges.x, places=means)
    return plot(
        [*traces, *trivial.crosses([(mark.setting, mark.x.mean, mark.y.mean) for mark in drawn])],
        showlegend=any(trace.showlegend for trace in traces),
        shapes=[*marks.level(drawn), *line["shapes"]],
        annotations=line["annotations"],
        xaxis={"title": {"text": "IsoScore★ (1 is isotropic)"}, "range": ranges.x},
        yaxis={"title": {"text": scale.title}, "range": ranges.y},
    )


def _draw_lambda(sweep: Sweep, points: Sequence[Point], scale: MetricRange, look: Look, trivial: Trivial) -> go.Figure:
    lams = sorted({point.setting.lam for point in points})
    searched = sweep.searched
    places = {lam: lam if searched else float(step) for step, lam in enumerate(lams)}
    drawn = []
    for lam, place in places.items():
        here = [point for point in points if point.setting.lam == lam]
        width = 0.0 if searched else WIDEST_STEP / len(here)
        for order, point in enumerate(here):
            x = place + width * (order - (len(here) - 1) / 2)
            runs = [(x, y, words) for _, y, words in _runs(sweep, point)] if look.seeds else []
            words = _words(point) + trivial.words(point.setting)
            drawn.append(Mark(point.setting, Estimate(x, None, 1), point.performance, words, runs))
    room = (0.05 * (lams[-1] - lams[0]) if searched else 0.0) or 0.5
    across = [places[lams[0]] - room, places[lams[-1]] + room]
    ranges = Ranges(across, trivial.widened(_performance_span(points, scale, look)))
    traces = marks.traces(Colouring(sweep, look.colour), drawn, ranges, named=False)
    means = [(mark.x.mean, mark.y.mean) for mark in drawn]
    line = trivial.line(ranges.y, across_range=ranges.x, places=means)
    return plot(
        [*traces, *trivial.crosses([(mark.setting, mark.x.mean, mark.y.mean) for mark in drawn])],
        showlegend=any(trace.showlegend for trace in traces),
        annotations=line["annotations"],
        shapes=[*marks.level(drawn), *line["shapes"], *_upright(places)],
        xaxis={"title": {"text": "λ (below 0 less isotropy, above 0 more)"}, "range": ranges.x,
               **({} if searched else _ticks(lams))},
        yaxis={"title": {"text": scale.title}, "range": ranges.y},
    )  # fmt: skip


def _ticks(lams: Sequence[float]) -> dict[str, list[Any]]:
    """Values of λ at equal steps."""
    ticks = thinned(range(len(lams)), MOST_TICKS)
    return {"tickvals": list(ticks), "ticktext": [short(lams[tick]) for tick in ticks]}


def _upright(places: Mapping[float, float]) -> list[dict[str, Any]]:
    """A dotted line at λ = 0, where that is among the values of λ."""
    if 0 not in places:
        return []
    style = {"width": 1, "dash": "dot", "color": palette.QUIET}
    return [{"type": "line", "x0": places[0], "x1": places[0], "yref": "paper", "y0": 0, "y1": 1, "line": style,
             "layer": "below"}]  # fmt: skip


def _performance_span(points: Sequence[Point], scale: MetricRange, look: Look) -> list[float]:
    runs = _known(points, "performance") if look.seeds else ()
    return marks.span([point.performance for point in points], runs, (scale.low, scale.high))


def _known(points: Sequence[Point], column: str) -> list[float]:
    return [value for point in points for run in point.runs if (value := getattr(run, column)) is not None]


def _runs(sweep: Sweep, point: Point) -> list[tuple[float | None, float | None, str]]:
    """Where the runs of a point lie; one without an IsoScore* lies nowhere on that axis."""
    label = legend.whole(sweep, point.setting)
    return [
        (run.isoscore_star, run.performance, f"{label}, seed {run.seed}: {number(run.performance, 4)}")
        for run in point.runs
    ]


def _words(point: Point) -> str:
    isotropy = f"<br>IsoScore★ {interval(point.isotropy)}" if point.isotropy else ""
    return f"{plural(point.performance.n, 'seed')}<br>performance {interval(point.performance)}{isotropy}"
