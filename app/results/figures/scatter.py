"""Performance by isotropy and by lambda, isotropy by silhouette: means over seeds with error bars."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import plotly.graph_objects as go

from app.figures import palette
from app.figures.figure import Figure, Table, plot, thinned
from app.results.figures import legend, scatter_traces
from app.results.figures.legend import Colouring
from app.results.figures.scatter_traces import Mark, Ranges, interval
from app.results.labels import SCALES, MetricRange, by_scripts, texts
from app.results.points import (
    Point,
    Trivial,
    averaged,
    cells,
    empty,
    finished,
    given_up,
    how_many,
    points_of,
    scored,
    table,
    unscored,
)
from app.results.statistics.estimate import Error, Estimate, by_seed, estimate
from app.results.sweep import Sweep
from isoscope.core.formatting import count, number, plural, short

MAX_NAMED = 5
WIDEST_STEP = 0.5
"""Of the step from one λ to the next, what its points take up side by side."""
MOST_TICKS = 15
"""Of an axis of λ: of more values some are told by pointing alone."""


class ScatterStyle(NamedTuple):
    """How the scatters of a sweep are wanted."""

    seeds: bool = False
    """The runs behind the means, too."""
    error: Error = Error.CI95
    colour: str = ""
    """What colors stand for: one of ``colouring.choices``; else the usual."""


USUAL = ScatterStyle()


def isotropy_performance(sweep: Sweep, metric: str, look: ScatterStyle = USUAL) -> Figure:
    """Performance over IsoScore*, one point for each setting. ``metric`` names one of ``SCALES``."""
    points = points_of(sweep, [run for run in scored(sweep) if run.isoscore_star is not None], look.error)
    trivial = Trivial.from_runs(sweep, finished(sweep))
    first = f"IsoScore★ is {by_scripts(sweep.runs, 'of the validation tokens')}. "
    return Figure(
        slug="isotropy",
        title="Performance by isotropy",
        caption=_scatter_caption(sweep, points, look.error, first, "on both axes ", trivial) + _left_out(sweep),
        table=table(sweep, points, look.error, trivial, seeds=look.seeds),
        draw=partial(_draw_isotropy, sweep, points, SCALES[metric], look, trivial),
        empty=None if points else _left_out(sweep).strip() or empty(sweep),
    )


def lambda_performance(sweep: Sweep, metric: str, look: ScatterStyle = USUAL) -> Figure:
    """Performance over λ at equal steps, λ = 0 marked."""
    points = points_of(sweep, scored(sweep), look.error)
    first = "" if sweep.searched else "λ values are equally spaced. "
    trivial = Trivial.from_runs(sweep, finished(sweep))
    return Figure(
        slug="lambda",
        title="Performance by λ",
        caption=_scatter_caption(sweep, points, look.error, first, "", trivial) + unscored(sweep),
        table=table(sweep, points, look.error, trivial, seeds=look.seeds),
        draw=partial(_draw_lambda, sweep, points, SCALES[metric], look, trivial),
        empty=None if points else empty(sweep),
    )


def _scatter_caption(
    sweep: Sweep, points: Sequence[Point], error: Error, first: str, where: str, trivial: Trivial
) -> str:
    if not points:
        return ""
    sizes = [point.performance.n for point in points]
    lines = " Lines connect settings that differ only in λ." if len(sweep.families) > 1 else ""
    ring = " Ring and dotted line: λ = 0." if any(point.setting.baseline for point in points) else ""
    of = f"Points are means over seeds ({how_many(sizes)}); bars {where}are {error.description}."
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
    sweep: Sweep, points: Sequence[Point], scale: MetricRange, look: ScatterStyle, trivial: Trivial
) -> go.Figure:
    placed = [(point, point.isotropy) for point in points if point.isotropy is not None]
    drawn = [
        Mark(
            point.setting,
            isotropy,
            point.performance,
            _words(point) + trivial.describe(point.setting),
            _runs(sweep, point) if look.seeds else (),
        )
        for point, isotropy in placed
    ]
    across = scatter_traces.span(
        [isotropy for _, isotropy in placed], _known(points, "isoscore_star") if look.seeds else ()
    )
    ranges = Ranges(across, trivial.widened(_performance_span(points, scale, look)))
    traces = scatter_traces.traces(Colouring(sweep, look.colour), drawn, ranges)
    means = [(mark.x.mean, mark.y.mean) for mark in drawn]
    line = trivial.line(ranges.y, across_range=ranges.x, places=means)
    return plot(
        [*traces, *trivial.crosses([(mark.setting, mark.x.mean, mark.y.mean) for mark in drawn])],
        showlegend=any(trace.showlegend for trace in traces),
        shapes=[*scatter_traces.level(drawn), *line["shapes"]],
        annotations=line["annotations"],
        xaxis={"title": {"text": "IsoScore★ (1 is isotropic)"}, "range": ranges.x},
        yaxis={"title": {"text": scale.title}, "range": ranges.y},
    )


def _draw_lambda(
    sweep: Sweep, points: Sequence[Point], scale: MetricRange, look: ScatterStyle, trivial: Trivial
) -> go.Figure:
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
            words = _words(point) + trivial.describe(point.setting)
            drawn.append(Mark(point.setting, Estimate(x, None, 1), point.performance, words, runs))
    room = (0.05 * (lams[-1] - lams[0]) if searched else 0.0) or 0.5
    across = [places[lams[0]] - room, places[lams[-1]] + room]
    ranges = Ranges(across, trivial.widened(_performance_span(points, scale, look)))
    traces = scatter_traces.traces(Colouring(sweep, look.colour), drawn, ranges, named=False)
    means = [(mark.x.mean, mark.y.mean) for mark in drawn]
    line = trivial.line(ranges.y, across_range=ranges.x, places=means)
    return plot(
        [*traces, *trivial.crosses([(mark.setting, mark.x.mean, mark.y.mean) for mark in drawn])],
        showlegend=any(trace.showlegend for trace in traces),
        annotations=line["annotations"],
        shapes=[*scatter_traces.level(drawn), *line["shapes"], *_upright(places)],
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


def _performance_span(points: Sequence[Point], scale: MetricRange, look: ScatterStyle) -> list[float]:
    runs = _known(points, "performance") if look.seeds else ()
    return scatter_traces.span([point.performance for point in points], runs, (scale.low, scale.high))


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


SILHOUETTE = "silhouette"


def isotropy_silhouette(sweep: Sweep, found: Mapping[str, Mapping[str, Any]], look: ScatterStyle = USUAL) -> Figure:
    """A point for each setting. ``found`` is, by run, what ``Run.results`` has of the silhouette by layer."""
    drawn = _marks(sweep, found, look.error)
    rows = min((one["n"] for one in found.values() if one.get("n") is not None), default=None)
    return Figure(
        slug=SILHOUETTE,
        title="Silhouette by isotropy",
        caption=_silhouette_caption(sweep, drawn, rows, look.error) if drawn else "",
        table=Table(
            [*sweep.columns, "seeds", *(f"{measure}_{column}" for measure in ("isoscore_star", SILHOUETTE)
                                       for column in ("mean", look.error.column))],
            [[*sweep.cells(mark.setting), mark.y.n, *cells(mark.x), *cells(mark.y)] for mark in drawn],
        ),
        draw=partial(_draw, sweep, drawn, look.colour),
        empty=None if drawn else _empty(sweep, found),
    )  # fmt: skip


def _marks(sweep: Sweep, found: Mapping[str, Mapping[str, Any]], error: Error) -> list[Mark]:
    """Means over the runs that have both values."""
    drawn = []
    for setting, runs in sweep.by_setting(sweep.runs).items():
        both = [
            (run.seed, run.isoscore_star, found[run.id]["values"][-1])
            for run in runs
            if run.isoscore_star is not None and run.id in found and found[run.id]["values"][-1] is not None
        ]
        if both:
            x = estimate([*by_seed((seed, isotropy) for seed, isotropy, _ in both).values()], error)
            y = estimate([*by_seed((seed, silhouette) for seed, _, silhouette in both).values()], error)
            words = f"{plural(y.n, 'seed')}<br>IsoScore★ {interval(x)}<br>silhouette {interval(y)}"
            drawn.append(Mark(setting, x, y, words))
    return drawn


def _silhouette_caption(sweep: Sweep, drawn: Sequence[Mark], rows: int | None, error: Error) -> str:
    behind = f" of {texts(sweep.runs, rows)}" if rows is not None else ""
    silhouette = by_scripts(sweep.runs, f"of the last layer’s sentence vectors{behind} by their labels")
    lines = " Lines connect settings that differ only in λ." if len(sweep.families) > 1 else ""
    star = by_scripts(sweep.runs, "of the validation tokens of all layers")
    return (
        f"IsoScore★ is {star}; the silhouette, from −1 to 1, is {silhouette}: high if classes are well separated. "
        f"{averaged([mark.y.n for mark in drawn], error)}{lines}"
    )


def _empty(sweep: Sweep, found: Mapping[str, Mapping[str, Any]]) -> str:
    reasons = [reason for one in found.values() for reason in one.get("reasons", []) if reason]
    if reasons:
        return f"No run has both values: {reasons[-1]}"
    if all(run.status.final for run in sweep.runs):
        return "No run has both an IsoScore★ and a silhouette."
    return "The first point appears here when the first run has finished."


def _draw(sweep: Sweep, drawn: Sequence[Mark], colour: str) -> go.Figure:
    ranges = Ranges(scatter_traces.span(mark.x for mark in drawn), scatter_traces.span(mark.y for mark in drawn))
    traces = scatter_traces.traces(Colouring(sweep, colour), drawn, ranges)
    return plot(
        traces,
        showlegend=any(trace.showlegend for trace in traces),
        shapes=scatter_traces.level(drawn),
        xaxis={"title": {"text": "IsoScore★ (1 is isotropic)"}, "range": ranges.x},
        yaxis={"title": {"text": "Silhouette of the last layer"}, "range": ranges.y},
    )
