"""One measure of the layers while a run or a setting trains: a row for each layer, a column for each look at them."""

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean

import plotly.graph_objects as go

from app.db.models import Run
from app.db.models.runs import Looks
from app.figures import palette
from app.figures.figure import Figure, Table, plot
from app.results.captions import by_scripts, texts
from app.results.metrics import is_of_texts, level_of, slug_of, title_of
from app.results.points import how_many
from app.results.setting import Setting
from app.results.statistics.repeats import Row, by_place
from app.results.sweep import Sweep
from isoscope.core.formatting import number
from isotropy.catalog import MEASURES

Look = tuple[int, Sequence[float | None]]
"""A step, and the values of all layers then."""


def probe(run: Run, measure: str) -> Figure:
    """Layer by step; a dark cell is a great value."""
    looks = [(step.step, step.layers[measure]) for step in run.steps if step.layers and measure in step.layers]
    return _figure([run], looks, measure, f"{title_of(measure)} by layer and step", "")


def setting_probe(sweep: Sweep, setting: Setting, by_run: Mapping[str, Looks], measure: str, sample: str) -> Figure:
    """Means over the seeds of a setting. ``sample`` says what part of the looks is here, where that is not all."""
    runs = [run for run in sweep.runs if sweep.setting(run) == setting]
    seen: dict[int, list[Row]] = {}
    for run in runs:
        for step, layers in by_run.get(run.id, ()):
            if values := layers.get(measure):
                seen.setdefault(step, []).append((run.seed, values))
    known = [(step, by_place(rows)) for step, rows in sorted(seen.items())]
    looks = [(step, [fmean(layer) if layer else None for layer in layers]) for step, layers in known]
    sizes = [len(layer) for _, layers in known for layer in layers if layer]
    behind = f" {'Means over seeds' if max(sizes) > 1 else 'Of one seed'} ({how_many(sizes)})." if sizes else ""
    title = f"{title_of(measure)} by layer and step, {sweep.label(setting)}"
    return _figure(runs, looks, measure, title, behind + sample)


def _figure(runs: Sequence[Run], looks: Sequence[Look], measure: str, title: str, further: str) -> Figure:
    depth = max((len(values) for _, values in looks), default=0)
    gap = " Empty: the measure was undefined at that step, because points were all equal or not finite."
    caption = _words(runs, measure, looks) + (gap if any(None in values for _, values in looks) else "") + further
    return Figure(
        slug="layers",
        title=title,
        caption=caption,
        table=Table(
            ["step", *(f"layer_{layer + 1}" for layer in range(depth))],
            [[step, *values, *[None] * (depth - len(values))] for step, values in looks],
        ),
        draw=partial(_draw, looks, depth, measure),
        empty=None if looks else _empty(runs),
    )


def _words(runs: Sequence[Run], measure: str, looks: Sequence[Look]) -> str:
    known = [value for _, values in looks for value in values if value is not None]
    shades = f"Light is {number(min(known))}, dark {number(max(known))}; range" if known else "Range"
    of = "one mean vector for each" if is_of_texts(measure) else "the tokens"
    looked = by_scripts(runs, f"of {of} of the same few {texts(runs)} each time{level_of(measure)}")
    return f"By layer, {looked}. {shades}: {MEASURES[slug_of(measure)].range}."


def _empty(runs: Sequence[Run]) -> str:
    if all(run.status.final for run in runs):
        return "This measure was not taken during training."
    return "A column appears after each measurement. The first is taken before training."


def _draw(looks: Sequence[Look], depth: int, measure: str) -> go.Figure:
    steps = len(palette.SCALE) - 1
    cells = go.Heatmap(
        x=[step for step, _ in looks],
        y=list(range(1, depth + 1)),
        z=[[values[layer] if layer < len(values) else None for _, values in looks] for layer in range(depth)],
        xgap=1,
        ygap=1,
        colorscale=[[i / steps, colour] for i, colour in enumerate(palette.SCALE)],
        showscale=False,
        hovertemplate="layer %{y}, step %{x:,}: %{z:.4~g}<extra></extra>",
    )
    bare = {"showline": False, "showgrid": False}
    # A cell reaches half of the way to the looks beside it, but no run has steps before 0 or after its last.
    ends = {"range": [looks[0][0], looks[-1][0]]} if len(looks) > 1 else {}
    return plot(
        [cells],
        xaxis={"title": {"text": "Optimizer step"}, **bare, **ends},
        yaxis={"title": {"text": "Layer"}, "dtick": max(1, -(-depth // 12)), "tick0": 1, **bare},
    )
