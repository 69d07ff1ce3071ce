"""One measure of a run's layers while it trains: a row for each layer, a column for each look at them."""

from collections.abc import Sequence
from functools import partial

import plotly.graph_objects as go

from app.db.models import Run
from app.figures import palette
from app.figures.figure import Figure, Table, plot
from app.figures.layer_measures import slug_of, title_of
from app.numerals import number
from isotropy.catalog import MEASURES

Look = tuple[int, Sequence[float | None]]
"""A step, and the values of all layers then."""


def probe(run: Run, measure: str) -> Figure:
    """Layer by step; a dark cell is a great value."""
    looks = [(step.step, step.layers[measure]) for step in run.steps if step.layers and measure in step.layers]
    depth = max((len(values) for _, values in looks), default=0)
    gap = " An empty cell is a look at which the measure was undefined: points all equal, or not finite."
    return Figure(
        slug="layers",
        title=f"{title_of(measure)} by layer and step",
        caption=_words(measure, looks) + (gap if any(None in values for _, values in looks) else ""),
        table=Table(
            ["step", *(f"layer_{layer + 1}" for layer in range(depth))], [[step, *values] for step, values in looks]
        ),
        draw=partial(_draw, looks, depth, measure),
        empty=None if looks else _empty(run),
    )


def _words(measure: str, looks: Sequence[Look]) -> str:
    known = [value for _, values in looks for value in values if value is not None]
    shades = f"Light is {number(min(known))}, dark {number(max(known))}; range" if known else "Range"
    level = " at ζ = 0: low for few tokens, so read the trend, not the level" if measure == "isoscore_star" else ""
    of = "one mean vector for each" if measure == "isoscore_unbiased" else "the tokens"
    return f"Of {of} of the same few validation rows each time{level}. {shades}: {MEASURES[slug_of(measure)].range}."


def _empty(run: Run) -> str:
    if run.status.final:
        return "The layers were not looked at with this measure while the run trained."
    return "A column appears here after each look at the layers, the first before the first step."


def _draw(looks: Sequence[Look], depth: int, measure: str) -> go.Figure:
    steps = len(palette.SCALE) - 1
    cells = go.Heatmap(
        x=[step for step, _ in looks],
        y=list(range(1, depth + 1)),
        z=[[values[layer] for _, values in looks] for layer in range(depth)],
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
