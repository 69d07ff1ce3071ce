"""The two views of a sweep: performance by isotropy and by λ, as means over seeds with intervals."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import plotly.graph_objects as go

from app.db.models import Run
from app.figures import palette
from app.figures.figure import Figure, plot
from app.figures.points import Point, points_by_lambda, table
from app.figures.stats import Estimate
from app.numerals import count, number, plural, short

METRIC_TITLES = {"accuracy": "Accuracy", "f1": "F1", "matthews": "Matthews correlation"}
MAX_NAMED = 5


def isotropy_performance(runs: Sequence[Run], metric: str, *, seeds: bool = False) -> Figure:
    """Performance over IsoScore*, one point for each λ; with ``seeds``, one for each run too."""
    points = points_by_lambda([run for run in runs if run.isoscore_star is not None])
    return Figure(
        slug="isotropy",
        title="Performance by isotropy",
        caption=_caption(points, "IsoScore★ is of the validation tokens. ", "on both axes ") + _left_out(runs),
        table=table(points_by_lambda(runs) if seeds else points, seeds=seeds),
        draw=partial(_draw_isotropy, points, METRIC_TITLES[metric], seeds),
        empty=None if points else _left_out(runs).strip() or _empty(runs),
    )


def lambda_performance(runs: Sequence[Run], metric: str, *, seeds: bool = False) -> Figure:
    """Performance over λ at equal steps, λ = 0 marked."""
    points = points_by_lambda(runs)
    return Figure(
        slug="lambda",
        title="Performance by λ",
        caption=_caption(points, "λ stands at equal steps. ", ""),
        table=table(points, seeds=seeds),
        draw=partial(_draw_lambda, points, METRIC_TITLES[metric], seeds),
        empty=None if points else _empty(runs),
    )


def _caption(points: list[Point], first: str, where: str) -> str:
    if not points:
        return ""
    sizes = sorted({len(point.runs) for point in points})
    if sizes == [1]:
        return f"{first}Each point is one run (n = 1 seed); error bars need two seeds or more."
    n = f"n = {sizes[0]}" if len(sizes) == 1 else f"n = {sizes[0]} to {sizes[-1]}"
    return (
        f"{first}Points are means over seeds ({n}); "
        f"bars {where}are 95 % confidence intervals of the mean by Student’s t."
    )


def _left_out(runs: Sequence[Run]) -> str:
    """Which finished runs have no place on the axis of IsoScore*, and the reason of the first."""
    left_out = [run for run in runs if run.performance is not None and run.isoscore_star is None]
    if not left_out:
        return ""
    named = ", ".join(f"λ = {short(run.lam)} seed {run.seed}" for run in left_out[:MAX_NAMED])
    more = f" and {count(len(left_out) - MAX_NAMED)} more" if len(left_out) > MAX_NAMED else ""
    return f" Not drawn, because IsoScore★ is undefined: {named}{more}. {left_out[0].isoscore_star_reason}"


def _empty(runs: Sequence[Run]) -> str:
    if all(run.status.final for run in runs):
        return "No run has finished, so there is nothing to plot."
    return "The first point appears here when the first run has finished."


def _draw_isotropy(points: list[Point], metric: str, seeds: bool) -> go.Figure:
    def place(found: Estimate | None) -> float | None:
        return found.mean if found else None

    traces = [_path([place(point.isotropy) for point in points], points)]
    for point in points:
        if seeds:
            traces.append(_seeds([run.isoscore_star for run in point.runs], point))
        x = place(point.isotropy)
        traces += [_mean(x, point, error_x=_bar(point.isotropy)), _label(x, point)]
    return plot(
        traces,
        xaxis={"title": {"text": "IsoScore★ (1 is isotropic)"}, "range": _isotropy_span(points)},
        yaxis={"title": {"text": metric}, "range": _performance_span(points)},
    )


def _draw_lambda(points: list[Point], metric: str, seeds: bool) -> go.Figure:
    steps = range(len(points))
    traces = [_path(list(steps), points)]
    for step, point in zip(steps, points, strict=True):
        if seeds:
            traces.append(_seeds([step] * len(point.runs), point))
        traces += [_mean(step, point), _label(step, point)]
    zero = [step for step in steps if points[step].lam == 0]
    return plot(
        traces,
        shapes=[{"type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1,
                 "line": {"width": 1, "dash": "dot", "color": palette.QUIET}} for x in zero],
        xaxis={"title": {"text": "λ (below 0 less isotropy, above 0 more)"},
               "tickvals": list(steps), "ticktext": [short(point.lam) for point in points],
               "range": [-0.5, len(points) - 0.5]},
        yaxis={"title": {"text": metric}, "range": _performance_span(points)},
    )  # fmt: skip


def _isotropy_span(points: list[Point]) -> list[float]:
    scores = [run.isoscore_star for point in points for run in point.runs if run.isoscore_star is not None]
    return _span([point.isotropy for point in points], scores)


def _performance_span(points: list[Point]) -> list[float]:
    performances = [run.performance for point in points for run in point.runs if run.performance is not None]
    return _span([point.performance for point in points], performances)


def _span(estimates: Sequence[Estimate | None], values: Sequence[float]) -> list[float]:
    """The range of an axis, with room for seeds, error bars and the names of the outermost points."""
    ends = [
        end for one in estimates if one for end in (one.mean - (one.half_width or 0), one.mean + (one.half_width or 0))
    ]
    low, high = min(*ends, *values), max(*ends, *values)
    room = 0.12 * (high - low) or 0.05
    return [low - room, high + room]


def _path(places: Sequence[float | None], points: list[Point]) -> go.Scatter:
    """A quiet line through the means in the order of λ."""
    return go.Scatter(
        x=places,
        y=[point.performance.mean for point in points],
        mode="lines",
        line={"color": palette.faded(palette.QUIET, 0.5), "width": 1},
        hoverinfo="skip",
    )


def _mean(place: float | None, point: Point, **errors: Any) -> go.Scatter:
    return go.Scatter(
        x=[place],
        y=[point.performance.mean],
        error_y=_bar(point.performance),
        mode="markers",
        marker={"color": palette.of_lambda(point.lam), "size": 11},
        hovertext=_words(point),
        hoverinfo="text",
        **errors,
    )


def _label(place: float | None, point: Point) -> go.Scatter:
    """The name of a point, above its error bar."""
    return go.Scatter(
        x=[place],
        y=[point.performance.mean + (point.performance.half_width or 0)],
        mode="markers+text",
        marker={"color": "rgba(0, 0, 0, 0)", "size": 11},
        text=[f"λ = {short(point.lam)}"],
        textposition="top center",
        hoverinfo="skip",
    )


def _seeds(places: Sequence[float | None], point: Point) -> go.Scatter:
    return go.Scatter(
        x=places,
        y=[run.performance for run in point.runs],
        mode="markers",
        marker={"color": palette.of_lambda(point.lam), "size": 6, "opacity": 0.55, "symbol": "circle-open"},
        hovertext=[f"λ = {short(run.lam)}, seed {run.seed}: {number(run.performance, 4)}" for run in point.runs],
        hoverinfo="text",
    )


def _bar(found: Estimate | None) -> dict[str, Any]:
    half_width = found.half_width if found else None
    return {"array": [half_width], "visible": half_width is not None, "thickness": 1.2, "width": 3}


def _words(point: Point) -> str:
    isotropy = f"<br>IsoScore★ {_interval(point.isotropy)}" if point.isotropy else ""
    return (
        f"λ = {short(point.lam)}, {plural(len(point.runs), 'seed')}"
        f"<br>performance {_interval(point.performance)}{isotropy}"
    )


def _interval(found: Estimate) -> str:
    return number(found.mean) + (f" ± {number(found.half_width, 2)}" if found.half_width is not None else "")
