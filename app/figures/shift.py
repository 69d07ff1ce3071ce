"""What a shift does to mean cosine and to IsoScore of one cloud."""

from collections.abc import Mapping, Sequence
from functools import partial

import plotly.graph_objects as go

from app.figures import palette
from app.figures.figure import Cell, Figure, Table, plot
from app.playground.grid import MEASURES, SHIFTS, Position, numbers_at
from isoscope.core.formatting import count, number

COMPARED = {"mean_cosine": ("Mean cosine", palette.MARKED), "isoscore": ("IsoScore", palette.MAIN)}
"""Names and colours: those of the mean and of the points in space."""

ROOM_FOR_NAMES = 100


def shift_figure(position: Position) -> Figure:
    """Both measures at every shift of a shape, a spread and a size, the present one marked; the table has all five."""
    found = {shift: numbers_at(position._replace(shift=shift)) for shift in SHIFTS}
    rows: list[list[Cell]] = [[shift, *numbers.values()] for shift, numbers in found.items()]
    return Figure(
        slug="shift",
        title="What the shift does",
        caption=(
            f"The same {count(position.n)} points, moved away from the origin. The mean cosine follows their mean; "
            "IsoScore does not see it. Marked: the position of the slider."
        ),
        table=Table(["shift", *MEASURES], rows),
        draw=partial(_draw, found, position.shift),
    )


def _draw(found: Mapping[float, Mapping[str, float]], shift: float) -> go.Figure:
    here = found[shift]
    upper = max(COMPARED, key=lambda slug: here[slug])
    end = max(COMPARED, key=lambda slug: found[SHIFTS[-1]][slug])
    traces = []
    for slug, (name, colour) in COMPARED.items():
        values = [numbers[slug] for numbers in found.values()]
        traces += [_line(values, name, colour, "top" if slug == end else "bottom")]
        traces += [_mark(shift, here[slug], colour, "top" if slug == upper else "bottom")]
    line = {"width": 1, "dash": "dot", "color": palette.QUIET}
    return plot(
        traces,
        shapes=[{"type": "line", "x0": shift, "x1": shift, "yref": "paper", "y0": 0, "y1": 1, "line": line}],
        xaxis={"title": {"text": "Shift: distance of the mean from the origin"}, "range": [-0.7, 7.2],
               "tickvals": SHIFTS},
        yaxis={"range": [-0.3, 1.2], "tickvals": [0, 0.2, 0.4, 0.6, 0.8, 1]},
        margin={"r": ROOM_FOR_NAMES},
    )  # fmt: skip


def _line(values: Sequence[float], name: str, colour: str, side: str) -> go.Scatter:
    return go.Scatter(
        x=SHIFTS,
        y=values,
        mode="lines+text",
        line={"color": colour, "width": 2.4},
        text=[*[""] * (len(SHIFTS) - 1), f"  {name}"],
        textposition=f"{side} right",
        textfont={"color": colour},
        cliponaxis=False,
        hovertemplate=f"shift %{{x}}: %{{y:.3f}}<extra>{name}</extra>",
    )


def _mark(shift: float, value: float, colour: str, side: str) -> go.Scatter:
    return go.Scatter(
        x=[shift],
        y=[value],
        mode="markers+text",
        marker={"color": colour, "size": 11},
        text=[number(value)],
        textfont={"color": colour},
        # The mean cosine rises: above it there is room on the left, below it on the right, unless names stand there.
        textposition=f"{side} {'left' if side == 'top' or shift == SHIFTS[-1] else 'right'}",
        hoverinfo="skip",
    )
