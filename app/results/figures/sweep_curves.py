"""What the runs of a sweep log as they train: task loss and penalty, as means over seeds or run by run."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise
from statistics import fmean
from typing import Any, Literal, NamedTuple

import plotly.graph_objects as go

from app.db.run_rows import AnyRun
from app.figures import palette
from app.figures.figure import STEP_AXIS, Figure, Table, log_axis, plot
from app.results.figures import legend
from app.results.labels import by_scripts, to_come
from app.results.points import averaged, cells
from app.results.statistics.estimate import Estimate, by_seed, estimate
from app.results.sweep import Setting, Sweep
from isoscope.core.formatting import count, plural

Curve = Sequence[tuple[int, float]]
"""A value at every step at which it was logged."""
Means = Mapping[Setting, Sequence[tuple[int, Estimate]]]
"""Of each setting the mean over its runs, at every step at which some of them logged."""

MOST_BANDS = legend.MOST_ENTRIES
"""Of more settings the intervals are in the numbers alone: bands would hide each other."""


def over_seeds(curves: Iterable[tuple[int, Curve]]) -> list[tuple[int, Estimate]]:
    """The mean over seeds at every step at which some of them have a value; ``curves`` are runs by their seeds."""
    at: dict[int, list[tuple[int, float]]] = {}
    for seed, curve in curves:
        for step, value in curve:
            at.setdefault(step, []).append((seed, value))
    return [(step, estimate([*by_seed(values).values()])) for step, values in sorted(at.items())]


def group_sizes(lines: Means) -> list[int]:
    """How many seeds are behind each mean."""
    return [found.n for points in lines.values() for _, found in points]


def fit_as_bands(lines: Means) -> bool:
    """Whether intervals are drawn: there are some, and few enough to be told apart."""
    return len(lines) <= MOST_BANDS and max(group_sizes(lines), default=0) > 1


def traces(sweep: Sweep, lines: Means, *, bands: bool) -> list[go.Scatter]:
    """The means as lines, above their intervals where these are wanted as ``bands``."""
    below = [
        _band(sweep, setting, part, list(lines))
        for setting, points in lines.items()
        for part in (_known(points) if bands else ())
    ]
    return [*below, *(_line(sweep, setting, points, list(lines)) for setting, points in lines.items())]


def _known(points: Sequence[tuple[int, Estimate]]) -> list[list[tuple[int, float, float]]]:
    """Stretches of steps with an interval: step, lower and upper end."""
    places = [place for place, (_, found) in enumerate(points) if found.half_width is not None]
    starts = [0, *(after for after, (one, other) in enumerate(pairwise(places), 1) if other > one + 1), len(places)]
    return [
        [
            (step, found.mean - found.half_width, found.mean + found.half_width)
            for step, found in (points[place] for place in places[start:end])
            if found.half_width is not None
        ]
        for start, end in pairwise(starts)
        if end > start
    ]


def _band(
    sweep: Sweep, setting: Setting, part: Sequence[tuple[int, float, float]], drawn: Sequence[Setting]
) -> go.Scatter:
    there, back = list(part), list(reversed(part))
    return go.Scatter(
        x=[step for step, _, _ in chain(there, back)],
        y=[*(low for _, low, _ in there), *(high for _, _, high in back)],
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=palette.faded(legend.colour(sweep, setting), 0.16),
        hoverinfo="skip",
        **_grouped(sweep, setting, drawn) | {"showlegend": False},
    )


def _line(
    sweep: Sweep, setting: Setting, points: Sequence[tuple[int, Estimate]], drawn: Sequence[Setting]
) -> go.Scatter:
    return go.Scatter(
        x=[step for step, _ in points],
        y=[found.mean for _, found in points],
        mode="lines" if len(points) > 1 else "markers",
        line={"color": legend.colour(sweep, setting), "dash": legend.dash(sweep, setting), "width": 1.8},
        hovertemplate=f"{legend.whole(sweep, setting)}<br>step %{{x:,}}: %{{y:.4~g}}<extra></extra>",
        **_grouped(sweep, setting, drawn),
    )


def _grouped(sweep: Sweep, setting: Setting, drawn: Sequence[Setting]) -> dict[str, object]:
    """Its entry of the legend, which shows and hides a line with its band."""
    entry = legend.entry(sweep, setting, drawn)
    return {"legendgroup": entry["name"]} | entry


WINDOWS = (1, 5, 21)
"""Logged values that one drawn value may be the mean of."""


Column = Literal["task_loss", "penalty"]


class Quantity(NamedTuple):
    """What is logged, and how it is told."""

    slug: str
    column: Column
    title: str
    axis: str
    words: str


TASK_LOSS = Quantity("learning", "task_loss", "Learning curves", "Task loss", "without the penalty")
PENALTY = Quantity("penalties", "penalty", "Penalty during training", "Penalty",
                   "as added to the task loss, zero without a regularizer")  # fmt: skip


class Way(NamedTuple):
    """How it is drawn: with single runs, on a logarithmic scale, smoothed over so many logged values."""

    seeds: bool = False
    log: bool = False
    window: int = 1


def logged(
    sweep: Sweep,
    quantity: Quantity,
    by_run: Mapping[str, Curve],
    sample: str = "",
    way: Way = Way(),  # noqa: B008
) -> Figure:
    """A line for each setting. ``sample`` says what part of the values is here, where that is not all."""
    runs = [(run, smoothed(by_run[run.id], way.window)) for run in sweep.runs if by_run.get(run.id)]
    curves = {run.id: curve for run, curve in runs}
    lines = {
        setting: over_seeds((run.seed, curves[run.id]) for run in alike)
        for setting, alike in sweep.by_setting(run for run, _ in runs).items()
    }
    log = way.log and all(value > 0 for _, curve in runs for _, value in curve)
    return Figure(
        slug=quantity.slug,
        title=quantity.title,
        caption=_caption(sweep.runs, quantity, lines, way, log, sample) if lines else "",
        table=_seeds_table(sweep, quantity, runs) if way.seeds else table_of(sweep, quantity.column, lines),
        draw=partial(_draw, sweep, quantity, lines, runs if way.seeds else [], log),
        empty=None
        if lines
        else to_come(
            sweep.runs,
            "The curves begin when the first run has trained a few steps.",
            f"No run logged a {quantity.axis.lower()}.",
        ),
    )


def smoothed(curve: Curve, window: int) -> Curve:
    """Each value as the mean of the ``window`` logged ones around it; of fewer near the ends."""
    if window == 1:
        return curve
    reach = window // 2
    return [
        (step, fmean(value for _, value in curve[max(0, place - reach) : place + reach + 1]))
        for place, (step, _) in enumerate(curve)
    ]


def part_shown(shown: int, total: int, apart: int, what: str) -> str:
    """What part of what was logged a figure has; empty where it has all."""
    if shown == total:
        return ""
    return f" {count(shown)} of {count(total)} {what} are shown: of every {plural(apart, 'step')} the last."


def _caption(runs: Sequence[AnyRun], quantity: Quantity, lines: Means, way: Way, log: bool, sample: str) -> str:
    sizes = group_sizes(lines)
    crowded = max(sizes) > 1 and not (way.seeds or fit_as_bands(lines))
    return " ".join(
        words
        for words in (
            f"{quantity.axis} {by_scripts(runs, quantity.words)}.",
            averaged(sizes),
            "The intervals are in the table: this many bands would overlap." if crowded else "",
            "Thin lines are single runs." if way.seeds else "",
            f"Smoothed: each value is the mean of the {way.window} logged values around it."
            if way.window > 1
            else "As logged: no smoothing.",
            "Some values are not above zero, so the scale stays linear." if way.log and not log else "",
            sample.strip(),
        )
        if words
    )


def table_of(sweep: Sweep, column: str, lines: Means) -> Table:
    """Means step by step; ``column`` is what a table calls their values."""
    return Table(
        [*sweep.columns, "step", "seeds", f"{column}_mean", "ci95_half_width"],
        [
            [*sweep.cells(setting), step, found.n, *cells(found)]
            for setting, points in lines.items()
            for step, found in points
        ],
    )


def _seeds_table(sweep: Sweep, quantity: Quantity, runs: Sequence[tuple[AnyRun, Curve]]) -> Table:
    return Table(
        [*sweep.columns, "seed", "step", quantity.column],
        [
            [*of_setting, run.seed, step, value]
            for run, curve in runs
            for of_setting in [sweep.cells(sweep.setting(run))]
            for step, value in curve
        ],
    )


def _draw(sweep: Sweep, quantity: Quantity, lines: Means, runs: Sequence[tuple[AnyRun, Curve]], log: bool) -> go.Figure:
    banded = fit_as_bands(lines) and not runs
    return plot(
        [
            *_singles(sweep, runs),
            *traces(sweep, lines, bands=banded),
        ],
        showlegend=True,
        xaxis=STEP_AXIS,
        yaxis=_axis(quantity, lines, runs, log=log),
    )


def _axis(quantity: Quantity, lines: Means, runs: Sequence[tuple[AnyRun, Curve]], *, log: bool) -> dict[str, Any]:
    """Around the lines: a band may reach below zero, where a logarithm has no end and losses of these tasks are not."""
    means = [found.mean for points in lines.values() for _, found in points]
    values = [*means, *(value for _, curve in runs for _, value in curve)]
    if log:
        return log_axis(f"{quantity.axis}, logarithmic", values)
    # What a script logs as its loss may be below zero.
    ends = {"rangemode": "nonnegative"} if quantity is TASK_LOSS and min(values, default=0) >= 0 else {}
    return {"title": {"text": quantity.axis}} | ends


def _singles(sweep: Sweep, runs: Sequence[tuple[AnyRun, Curve]]) -> list[go.Scatter]:
    """Single runs as thin lines. Those of one color are one trace with gaps: hundreds would block browsers."""
    alike: dict[tuple[str, str], list[tuple[AnyRun, Curve]]] = {}
    for run, curve in runs:
        mode = "lines" if len(curve) > 1 else "markers"
        alike.setdefault((legend.colour(sweep, sweep.setting(run)), mode), []).append((run, curve))
    return [_trace(sweep, colour, mode, of) for (colour, mode), of in alike.items()]


def _trace(sweep: Sweep, colour: str, mode: str, runs: Sequence[tuple[AnyRun, Curve]]) -> go.Scatter:
    points: list[tuple[int | None, float | None, str]] = []
    for run, curve in runs:
        label = f"{legend.whole(sweep, sweep.setting(run))}, seed {run.seed}"
        points += [*((step, value, label) for step, value in curve), (None, None, "")]
    x, y, labels = zip(*points[:-1], strict=True)
    return go.Scatter(
        x=x,
        y=y,
        text=labels,
        mode=mode,
        line={"color": colour, "width": 0.6},
        showlegend=False,
        hovertemplate="%{text}<br>step %{x:,}: %{y:.4g}<extra></extra>",
    )
