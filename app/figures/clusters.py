"""Isotropy against how far apart the classes are: IsoScore* and the silhouette of the trained models."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import plotly.graph_objects as go

from app.figures import marks
from app.figures.colouring import Colouring
from app.figures.figure import Figure, Table, plot
from app.figures.marks import Mark, Ranges, interval
from app.figures.scatter import USUAL, Look
from app.results.captions import by_scripts, texts
from app.results.points import averaged, cells
from app.results.statistics.estimate import Error, estimate
from app.results.statistics.repeats import by_seed
from app.results.sweep import Sweep
from isoscope.core.formatting import plural

SILHOUETTE = "silhouette"


def isotropy_silhouette(sweep: Sweep, found: Mapping[str, Mapping[str, Any]], look: Look = USUAL) -> Figure:
    """A point for each setting. ``found`` is, by run, what ``Run.results`` has of the silhouette by layer."""
    drawn = _marks(sweep, found, look.error)
    rows = min((one["n"] for one in found.values() if one.get("n") is not None), default=None)
    return Figure(
        slug=SILHOUETTE,
        title="Silhouette by isotropy",
        caption=_caption(sweep, drawn, rows, look.error) if drawn else "",
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


def _caption(sweep: Sweep, drawn: Sequence[Mark], rows: int | None, error: Error) -> str:
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
    ranges = Ranges(marks.span(mark.x for mark in drawn), marks.span(mark.y for mark in drawn))
    traces = marks.traces(Colouring(sweep, colour), drawn, ranges)
    return plot(
        traces,
        showlegend=any(trace.showlegend for trace in traces),
        shapes=marks.level(drawn),
        xaxis={"title": {"text": "IsoScore★ (1 is isotropic)"}, "range": ranges.x},
        yaxis={"title": {"text": "Silhouette of the last layer"}, "range": ranges.y},
    )
