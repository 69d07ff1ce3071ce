"""Activation diagrams of trained models: mean and spread of each dimension of the last layer's sentence vectors."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import sqrt
from statistics import fmean
from typing import Any, NamedTuple

import plotly.graph_objects as go

from app.db.models import Run
from app.figures import legend, palette
from app.figures.figure import Cell, Columns, Figure, Table, plot
from app.results.captions import texts
from app.results.points import how_many, named
from app.results.setting import Setting
from app.results.statistics.repeats import by_place
from app.results.sweep import Sweep

MOST_BANDS = 1
"""Of more settings the spread is in the numbers alone: bands would hide each other."""


class Profile(NamedTuple):
    """Mean and standard deviation of every dimension over so many rows, averaged over seeds."""

    mean: list[float]
    std: list[float]
    n: int
    seeds: int


def profiles(sweep: Sweep, found: Mapping[str, Mapping[str, Any]]) -> Figure:
    """A line of means for each setting; of one alone with its spread. ``found`` is ``RunFigure.data`` by run."""
    known = sweep.by_setting(run for run in sweep.runs if run.id in found)
    uneven = [setting for setting, runs in known.items() if len({len(found[run.id]["mean"]) for run in runs}) > 1]
    lines = {setting: _averaged(runs, found) for setting, runs in known.items() if setting not in uneven}
    apart = _apart([sweep.label(setting) for setting in uneven])
    return Figure(
        slug="activation",
        title="Activation by dimension",
        caption=_caption(sweep, lines) + apart if lines else "",
        table=_table(sweep, lines),
        draw=partial(_draw, sweep, lines),
        empty=None if lines else apart.strip() or _empty(sweep),
    )


def _averaged(runs: Sequence[Run], found: Mapping[str, Mapping[str, Any]]) -> Profile:
    """Means over the seeds of runs of one width; of standard deviations the root of the mean square."""
    squares = ((run.seed, [value * value for value in found[run.id]["std"]]) for run in runs)
    return Profile(
        [fmean(values) for values in by_place((run.seed, found[run.id]["mean"]) for run in runs)],
        [sqrt(fmean(values)) for values in by_place(squares)],
        min(found[run.id]["n"] for run in runs),
        len({run.seed for run in runs}),
    )


def _apart(labels: Sequence[str]) -> str:
    """Of which settings there is no mean, since a dimension of one model is none of another; empty of none."""
    if not labels:
        return ""
    return (
        f" Not drawn, because their models have different numbers of dimensions: {named(labels)}. Group by model to "
        "draw them."
    )


def _caption(sweep: Sweep, lines: Mapping[Setting, Profile]) -> str:
    read = texts(sweep.runs, min(one.n for one in lines.values()))
    rows = f"of the last layer’s sentence vectors, n = {read}"
    band = " (line) with one standard deviation on each side (band)"
    if len(sweep.runs) == 1:
        return f"Mean of each dimension{band} {rows}."
    seeds = how_many([one.seeds for one in lines.values()])
    spread = band if len(lines) <= MOST_BANDS else ""
    below = "" if spread else " The numbers have the standard deviations."
    return f"Mean of each dimension{spread} {rows}; averaged over seeds ({seeds}).{below}"


def _empty(sweep: Sweep) -> str:
    if all(run.status.final for run in sweep.runs):
        return "No run stored the activation of its dimensions."
    return "The first diagram appears here when the first run has finished."


def _table(sweep: Sweep, lines: Mapping[Setting, Profile]) -> Table:
    if not lines:
        return Table([], [])
    several = len(lines) > 1
    heads = [
        f"{head}: {sweep.label(setting)}" if several else head
        for setting in lines
        for head in ("mean", "standard_deviation")
    ]
    widest = _widest(lines)
    columns: list[Sequence[Cell]] = [
        [*column, *[None] * (widest - len(column))] for one in lines.values() for column in (one.mean, one.std)
    ]
    return Table(["dimension", *heads], Columns(range(widest), *columns))


def _widest(lines: Mapping[Setting, Profile]) -> int:
    return max(len(one.mean) for one in lines.values())


def _draw(sweep: Sweep, lines: Mapping[Setting, Profile]) -> go.Figure:
    banded = len(lines) <= MOST_BANDS
    return plot(
        [
            trace
            for setting, one in lines.items()
            for trace in (*(_band(sweep, setting, one) if banded else ()), _line(sweep, setting, one, list(lines)))
        ],
        showlegend=not banded,
        xaxis={"title": {"text": "Dimension"}, "range": [-0.5, _widest(lines) - 0.5]},
        yaxis={"title": {"text": "Activation, mean ± 1 sd" if banded else "Mean activation"}},
    )


def _band(sweep: Sweep, setting: Setting, one: Profile) -> list[go.Scatter]:
    """The lower edge of the band, and the upper one that fills down to it."""
    edge = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
    low, high = ([mean + sign * std for mean, std in zip(one.mean, one.std, strict=True)] for sign in (-1, 1))
    x = list(range(len(one.mean)))
    fill = palette.faded(legend.colour(sweep, setting), 0.22)
    return [go.Scatter(x=x, y=low, **edge), go.Scatter(x=x, y=high, fill="tonexty", fillcolor=fill, **edge)]


def _line(sweep: Sweep, setting: Setting, one: Profile, drawn: Sequence[Setting]) -> go.Scatter:
    return go.Scatter(
        x=list(range(len(one.mean))),
        y=one.mean,
        mode="lines",
        line={"color": legend.colour(sweep, setting), "dash": legend.dash(sweep, setting), "width": 1.1},
        opacity=1 if len(drawn) <= MOST_BANDS else 0.75,
        **legend.entry(sweep, setting, drawn),
        customdata=one.std,
        hovertemplate=f"{legend.whole(sweep, setting)}<br>dimension %{{x:,}}"
        "<br>mean %{y:.3g}, sd %{customdata:.3g}<extra></extra>",
    )
