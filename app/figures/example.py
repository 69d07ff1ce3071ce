"""A figure that needs no upload: how many rows the scores of a Gaussian in 768 dimensions take."""

import json
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import plotly.graph_objects as go

from app.figures import palette
from app.figures.figure import Figure
from app.figures.report import figures_of
from app.figures.sample_size import SAMPLE_SIZE
from app.figures.subject import Subject
from isoscope.core.formatting import number

FILE = Path(__file__).with_name("gaussian_example.json")


@cache
def gaussian_example() -> Figure:
    """The sample-size figure of the Gaussian, with the score of the distribution that its rows were drawn from."""
    data = json.loads(FILE.read_text(encoding="utf-8"))
    (figure,) = figures_of([Subject("Gaussian, d = 768", {}, {SAMPLE_SIZE: data})])
    truth, ends = data["truth"], [data["rows"][0], data["n"]]
    caption = f"{figure.caption} In long dashes, the score of the distribution itself, {number(truth)}."
    return replace(figure, caption=caption, draw=partial(_draw, figure, truth, ends))


def _draw(figure: Figure, truth: float, ends: list[int]) -> go.Figure:
    """The same with a line across the axis."""
    line = go.Scatter(
        x=ends,
        y=[truth, truth],
        mode="lines",
        line={"color": palette.QUIET, "width": 1.6, "dash": "longdash"},
        name="truth",
        hovertemplate="the distribution itself: %{y:.3f}<extra></extra>",
    )
    return figure.draw().add_trace(line)
