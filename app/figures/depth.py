"""One measure of the trained models from layer to layer, as means over seeds."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import plotly.graph_objects as go

from app.db.models import Run
from app.figures import legend, palette
from app.figures.figure import Figure, Table, plot
from app.results.captions import by_scripts, texts
from app.results.metrics import slug_of, title_of
from app.results.points import averaged, cells
from app.results.setting import Setting
from app.results.statistics.estimate import Estimate, estimate
from app.results.statistics.repeats import by_place
from app.results.sweep import Sweep
from isoscope.core.formatting import count
from isotropy.catalog import MEASURES


def by_depth(sweep: Sweep, found: Mapping[str, Mapping[str, Any]], measure: str) -> Figure:
    """A line by layer for each setting. ``found`` is, by run, what ``Run.results`` has of the measure, and its n."""
    lines = {
        setting: layers for setting, runs in sweep.by_setting(sweep.runs).items() if any(layers := _means(runs, found))
    }
    sizes = [layer.n for layers in lines.values() for layer in layers if layer]
    return Figure(
        slug=measure,
        title=f"{title_of(measure)} by layer",
        caption=_caption(sweep, found, measure, sizes) if lines else "",
        table=Table(
            [*sweep.columns, "layer", "seeds", f"{measure}_mean", "ci95_half_width"],
            [
                [*sweep.cells(setting), layer, one.n if one else 0, *cells(one)]
                for setting, layers in lines.items()
                for layer, one in enumerate(layers, 1)
            ],
        ),
        draw=partial(_draw, sweep, lines, title_of(measure)),
        empty=None if lines else _empty(sweep, found),
    )


def _means(runs: Sequence[Run], found: Mapping[str, Mapping[str, Any]]) -> list[Estimate | None]:
    """The mean over seeds of each layer, first layer first; None where no run has a value."""
    layers = by_place((run.seed, found[run.id]["values"]) for run in runs if run.id in found)
    return [estimate(layer) if layer else None for layer in layers]


def _caption(sweep: Sweep, found: Mapping[str, Mapping[str, Any]], measure: str, sizes: Sequence[int]) -> str:
    rows = sorted({one["n"] for one in found.values() if one.get("n") is not None})
    least = f"{count(rows[0])} to " if len(rows) > 1 else ""
    behind = least + texts(sweep.runs, rows[-1]) if rows else ""
    launched = f"of the sentence vectors{f' of {behind}' if behind else ''}"
    of = f"By layer, {by_scripts(sweep.runs, launched)}. Range: {MEASURES[slug_of(measure)].range}."
    if len(sweep.runs) == 1:
        return of
    return f"{of} {averaged(sizes)}"


def _empty(sweep: Sweep, found: Mapping[str, Mapping[str, Any]]) -> str:
    """Why there is no line: a reason that some layer has, or what is still to come."""
    reasons = [reason for one in found.values() for reason in one.get("reasons", []) if reason]
    if reasons:
        return f"It is undefined in every layer: {reasons[0]}"
    if all(run.status.final for run in sweep.runs):
        return "It was not measured."
    return "The first line appears here when the first run has finished."


def _draw(sweep: Sweep, lines: Mapping[Setting, Sequence[Estimate | None]], title: str) -> go.Figure:
    depth = max(map(len, lines.values()))
    return plot(
        [_line(sweep, setting, layers, list(lines)) for setting, layers in lines.items()],
        showlegend=len(lines) > 1,
        xaxis={"title": {"text": "Layer"}, "dtick": max(1, -(-depth // 12)), "range": [0.7, depth + 0.3]},
        yaxis={"title": {"text": title}},
    )


def _line(sweep: Sweep, setting: Setting, layers: Sequence[Estimate | None], drawn: Sequence[Setting]) -> go.Scatter:
    colour = legend.colour(sweep, setting)
    return go.Scatter(
        x=list(range(1, len(layers) + 1)),
        y=[one.mean if one else None for one in layers],
        error_y={
            "array": [one.half_width if one else None for one in layers],
            "color": palette.faded(colour, 0.6),
            "thickness": 1.2,
            "width": 3,
        },
        mode="lines+markers",
        line={"color": colour, "dash": legend.dash(sweep, setting), "width": 1.8},
        marker={"symbol": legend.symbol(sweep, setting), "size": 6},
        **legend.entry(sweep, setting, drawn),
        hovertemplate=f"{legend.whole(sweep, setting)}<br>layer %{{x}}: %{{y:.4~g}}<extra></extra>",
    )
