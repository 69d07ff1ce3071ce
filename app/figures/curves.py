"""The shrinkage-zeta curve: IsoScore* at 101 values of ζ, one line for each number of rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import plotly.graph_objects as go

from app.figures import palette
from app.figures.figure import Figure, Table, plot
from isoscope.core.formatting import count, number, plural

ZETAS = [step / 100 for step in range(101)]
TICKS = [0, 0.2, 0.4, 0.6, 0.8, 1]
LEAST_GAP = 0.045
"""IsoScore* between two names at the lines' beginnings."""


@dataclass(frozen=True)
class Line:
    """IsoScore* of ``rows`` rows at each of ``ZETAS``; where it has no values, ``reason`` says why."""

    rows: int
    values: list[float | None]
    reason: str | None = None

    def at(self, zeta: float) -> float | None:
        """IsoScore* at the nearest of ``ZETAS``."""
        return self.values[round(zeta * 100)] if self.values else None

    @property
    def drawable(self) -> bool:
        """Whether there is a value at any ζ."""
        return any(value is not None for value in self.values)


def read_lines(stored: Sequence[dict[str, Any]]) -> list[Line]:
    """The lines of a stored curve, from few rows to many."""
    lines = [Line(one["rows"], one["values"] or [], one["reason"]) for one in stored]
    return sorted(lines, key=lambda line: line.rows)


def choose(lines: Sequence[Line], rows: int | None) -> Line:
    """The line of so many rows, or of most."""
    return next((line for line in lines if line.rows == rows), lines[-1])


def zeta_curve(lines: Sequence[Line], chosen: Line, zeta: float, source: str) -> Figure:
    """The curve of one shrinkage covariance, with the reading at ``zeta`` marked on the chosen line."""
    return Figure(
        slug="zeta",
        title="Shrinkage by ζ",
        caption=(
            "IsoScore★ of (1 − ζ) Σₓ + ζ Σₛ. ζ = 0 uses only your rows, ζ = 1 only the shrinkage covariance: {source}. "
            "Colored: the rows chosen above. Gray: other numbers of rows, sampled with a fixed seed."
            + "".join(f" Of {plural(line.rows, 'row')} it is undefined: {line.reason}" for line in lines if line.reason)
        ),
        table=Table(
            ["zeta", *(f"isoscore_star_{line.rows}_rows" for line in lines)],
            [[zeta_, *(line.at(zeta_) for line in lines)] for zeta_ in ZETAS],
        ),
        draw=partial(_draw, lines, chosen, zeta),
        empty=None if any(line.drawable for line in lines) else f"IsoScore★ is undefined here: {chosen.reason}",
    )


def _draw(lines: Sequence[Line], chosen: Line, zeta: float) -> go.Figure:
    named = _with_room(lines, chosen)
    others = [_line(line, palette.faded(palette.QUIET, 0.65), 1.2, named) for line in lines if line is not chosen]
    value = chosen.at(zeta)
    mark = go.Scatter(
        x=[zeta],
        y=[value],
        mode="markers+text",
        marker={"color": palette.MARKED, "size": 11},
        text=[number(value)],
        textposition="top center" if zeta < 0.9 else "top left",
        hoverinfo="skip",
    )
    return plot(
        [*others, _line(chosen, palette.MAIN, 2.4, named), mark],
        xaxis={"title": {"text": "Shrinkage ζ"}, "range": [-0.16, 1.02], "tickvals": TICKS},
        yaxis={"title": {"text": "IsoScore★ (1 is isotropic)"}, "rangemode": "tozero"},
    )


def _with_room(lines: Sequence[Line], chosen: Line) -> set[int]:
    """Numbers of rows whose lines begin far enough from one another to be named there; the chosen one comes first."""
    starts: dict[int, float] = {}
    for line in (chosen, *lines):
        start = line.at(0)
        if start is not None and all(abs(start - other) >= LEAST_GAP for other in starts.values()):
            starts[line.rows] = start
    return set(starts)


def _line(line: Line, colour: str, width: float, named: set[int]) -> go.Scatter:
    """A line with its number of rows written where it begins; all lines end in one point."""
    return go.Scatter(
        x=ZETAS,
        y=line.values,
        mode="lines+text",
        line={"color": colour, "width": width},
        text=[f"{count(line.rows)} " if line.rows in named else "", *[""] * 100],
        textposition="middle left",
        cliponaxis=False,
        hovertemplate=f"{count(line.rows)} rows<br>ζ = %{{x}}: %{{y:.3f}}<extra></extra>",
    )
