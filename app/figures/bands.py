"""Lines over optimizer steps: means over the seeds of each setting, and around them how far the means are known."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise

import plotly.graph_objects as go

from app.figures import legend, palette
from app.results.setting import Setting
from app.results.statistics.estimate import Estimate, estimate
from app.results.statistics.repeats import by_seed
from app.results.sweep import Sweep

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


def sizes(lines: Means) -> list[int]:
    """How many seeds are behind each mean."""
    return [found.n for points in lines.values() for _, found in points]


def banded(lines: Means) -> bool:
    """Whether intervals are drawn: there are some, and few enough to be told apart."""
    return len(lines) <= MOST_BANDS and max(sizes(lines), default=0) > 1


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
