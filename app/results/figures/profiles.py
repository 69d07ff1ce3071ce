"""Trained models: mean and spread of each dimension, and one measure from layer to layer."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import sqrt
from statistics import fmean
from typing import Any, NamedTuple

import plotly.graph_objects as go

from app.db.run_rows import AnyRun
from app.figures import palette
from app.figures.figure import Cell, Columns, Figure, Table, plot
from app.results.figures import legend
from app.results.labels import by_scripts, slug_of, texts, title_of
from app.results.points import averaged, cells, how_many, named
from app.results.statistics.estimate import Estimate, by_place, estimate
from app.results.sweep import Setting, Sweep
from isoscope.core.formatting import count
from isotropy.catalog import MEASURES

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
        caption=_profiles_caption(sweep, lines) + apart if lines else "",
        table=_table(sweep, lines),
        draw=partial(_draw_profiles, sweep, lines),
        empty=None if lines else apart.strip() or _no_profiles(sweep),
    )


def _averaged(runs: Sequence[AnyRun], found: Mapping[str, Mapping[str, Any]]) -> Profile:
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


def _profiles_caption(sweep: Sweep, lines: Mapping[Setting, Profile]) -> str:
    read = texts(sweep.runs, min(one.n for one in lines.values()))
    rows = f"of the last layer’s sentence vectors, n = {read}"
    band = " (line) with one standard deviation on each side (band)"
    if len(sweep.runs) == 1:
        return f"Mean of each dimension{band} {rows}."
    seeds = how_many([one.seeds for one in lines.values()])
    spread = band if len(lines) <= MOST_BANDS else ""
    below = "" if spread else " The table has the standard deviations."
    return f"Mean of each dimension{spread} {rows}; averaged over seeds ({seeds}).{below}"


def _no_profiles(sweep: Sweep) -> str:
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


def _draw_profiles(sweep: Sweep, lines: Mapping[Setting, Profile]) -> go.Figure:
    banded = len(lines) <= MOST_BANDS
    return plot(
        [
            trace
            for setting, one in lines.items()
            for trace in (
                *(_band(sweep, setting, one) if banded else ()),
                _profile_line(sweep, setting, one, list(lines)),
            )
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


def _profile_line(sweep: Sweep, setting: Setting, one: Profile, drawn: Sequence[Setting]) -> go.Scatter:
    return go.Scatter(
        x=list(range(len(one.mean))),
        y=one.mean,
        mode="lines",
        line={"color": legend.colour(sweep, setting), "dash": legend.dash(sweep, setting), "width": 1.1},
        **legend.entry(sweep, setting, drawn),
        customdata=one.std,
        hovertemplate=f"{legend.whole(sweep, setting)}<br>dimension %{{x:,}}"
        "<br>mean %{y:.3g}, sd %{customdata:.3g}<extra></extra>",
    )


def by_depth(sweep: Sweep, found: Mapping[str, Mapping[str, Any]], measure: str) -> Figure:
    """A line by layer for each setting. ``found`` is, by run, what ``Run.results`` has of the measure, and its n."""
    lines = {
        setting: layers for setting, runs in sweep.by_setting(sweep.runs).items() if any(layers := _means(runs, found))
    }
    sizes = [layer.n for layers in lines.values() for layer in layers if layer]
    return Figure(
        slug=measure,
        title=f"{title_of(measure)} by layer",
        caption=_depth_caption(sweep, found, measure, sizes) if lines else "",
        table=Table(
            [*sweep.columns, "layer", "seeds", f"{measure}_mean", "ci95_half_width"],
            [
                [*sweep.cells(setting), layer, one.n if one else 0, *cells(one)]
                for setting, layers in lines.items()
                for layer, one in enumerate(layers, 1)
            ],
        ),
        draw=partial(_draw_depth, sweep, lines, title_of(measure)),
        empty=None if lines else _no_depth(sweep, found),
    )


def _means(runs: Sequence[AnyRun], found: Mapping[str, Mapping[str, Any]]) -> list[Estimate | None]:
    """The mean over seeds of each layer, first layer first; None where no run has a value."""
    layers = by_place((run.seed, found[run.id]["values"]) for run in runs if run.id in found)
    return [estimate(layer) if layer else None for layer in layers]


def _depth_caption(sweep: Sweep, found: Mapping[str, Mapping[str, Any]], measure: str, sizes: Sequence[int]) -> str:
    rows = sorted({one["n"] for one in found.values() if one.get("n") is not None})
    least = f"{count(rows[0])} to " if len(rows) > 1 else ""
    behind = least + texts(sweep.runs, rows[-1]) if rows else ""
    launched = f"of the sentence vectors{f' of {behind}' if behind else ''}"
    of = f"By layer, {by_scripts(sweep.runs, launched)}. Range: {MEASURES[slug_of(measure)].range}."
    if len(sweep.runs) == 1:
        return of
    return f"{of} {averaged(sizes)}"


def _no_depth(sweep: Sweep, found: Mapping[str, Mapping[str, Any]]) -> str:
    """Why there is no line: a reason that some layer has, or what is still to come."""
    reasons = [reason for one in found.values() for reason in one.get("reasons", []) if reason]
    if reasons:
        return f"It is undefined in every layer: {reasons[0]}"
    if all(run.status.final for run in sweep.runs):
        return "It was not measured."
    return "The first line appears here when the first run has finished."


def _draw_depth(sweep: Sweep, lines: Mapping[Setting, Sequence[Estimate | None]], title: str) -> go.Figure:
    depth = max(map(len, lines.values()))
    return plot(
        [_depth_line(sweep, setting, layers, list(lines)) for setting, layers in lines.items()],
        showlegend=len(lines) > 1,
        xaxis={"title": {"text": "Layer"}, "dtick": max(1, -(-depth // 12)), "range": [0.7, depth + 0.3]},
        yaxis={"title": {"text": title}},
    )


def _depth_line(
    sweep: Sweep, setting: Setting, layers: Sequence[Estimate | None], drawn: Sequence[Setting]
) -> go.Scatter:
    colour = legend.colour(sweep, setting)
    return go.Scatter(
        x=list(range(1, len(layers) + 1)),
        y=[one.mean if one else None for one in layers],
        error_y={
            "array": [one.half_width if one else None for one in layers],
            "color": colour,
            "thickness": 0.8,
            "width": 3,
        },
        mode="lines+markers",
        line={"color": colour, "dash": legend.dash(sweep, setting), "width": 1.8},
        marker={"symbol": legend.symbol(sweep, setting), "size": 6},
        **legend.entry(sweep, setting, drawn),
        hovertemplate=f"{legend.whole(sweep, setting)}<br>layer %{{x}}: %{{y:.4~g}}<extra></extra>",
    )
