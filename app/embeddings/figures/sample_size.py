"""What rows and zeta do to IsoScore: its forms by sample size, and the shrinkage-zeta curve."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import plotly.graph_objects as go

from app.embeddings.figures.overlay import Overlay, Series
from app.figures import palette
from app.figures.figure import Cell, Figure, Table, log_axis, plot
from isoscope.core.formatting import count, number, plural, short

SAMPLE_SIZE = "sample_size"


class At(NamedTuple):
    """A score of so many rows; one draw has no standard deviation."""

    rows: int
    draws: int
    mean: float
    sd: float | None

    @property
    def hover_text(self) -> str:
        """What is told beside the mean."""
        spread = f" ± {number(self.sd, 2)}" if self.sd is not None else ""
        return f"{spread}, {plural(self.draws, 'draw')}"


class SampleSizeLine(NamedTuple):
    """A score over the number of rows."""

    slug: str
    name: str
    colour: str
    dash: str
    found: Mapping[str, Sequence[float | None]]
    """Its "mean" and "sd" over draws of each number of rows, null where undefined."""


def sample_size(overlay: Overlay) -> Figure:
    """Scores over the number of rows drawn, beside those of all rows."""
    if overlay.several:
        what = "Full lines are IsoScore, dotted ones its bias-corrected form"
    else:
        what = "ζ = 0 is IsoScore. A larger ζ shrinks the covariance toward that of all rows (IsoScore★)"
    return Figure(
        slug=SAMPLE_SIZE,
        title="How many rows it takes",
        caption=f"Mean of {overlay.each(_draws)}, or fewer if rows run out. Bands are ± one standard deviation. {what}."
        f" Dashed: the score of all rows ({overlay.each(_say_full)}). If a line still rises or falls, you need more "
        "rows.",
        table=_table(overlay),
        draw=partial(_draw_sample_sizes, overlay),
    )


def _draws(one: Series) -> str:
    data = one.of(SAMPLE_SIZE)
    return f"up to {plural(data['draws'], 'draw')} of that many of {count(data['n'])} rows"


def _say_full(one: Series) -> str:
    full = one.of(SAMPLE_SIZE)["full"]
    return f"{number(full['isoscore'])}, bias-corrected {number(full['isoscore_unbiased'])}"


def _lines(overlay: Overlay, one: Series) -> list[SampleSizeLine]:
    """Of one subject all scores that were drawn; of several the two without ζ, in the subject's color."""
    data = one.of(SAMPLE_SIZE)
    plain, unbiased = data["isoscore"], data["isoscore_unbiased"]
    if overlay.several:
        return [
            SampleSizeLine("isoscore", one.label, one.colour, "solid", plain),
            SampleSizeLine("isoscore_unbiased", f"{one.label}, bias-corrected", one.colour, "dot", unbiased),
        ]
    starred = [
        SampleSizeLine(f"isoscore_star_zeta_{zeta:g}", short(zeta), palette.of_zeta(zeta), "solid", found)
        for zeta, found in zip(data["zetas"], data["isoscore_star"], strict=True)
        if zeta > 0
    ]
    return [
        SampleSizeLine("isoscore", "ζ = 0", palette.of_zeta(0), "solid", plain),
        *starred,
        SampleSizeLine("isoscore_unbiased", "bias-corrected", palette.MARKED, "solid", unbiased),
    ]


def _table(overlay: Overlay) -> Table:
    columns: dict[str, Callable[[Series], Sequence[Cell]]] = {
        "rows": lambda one: one.of(SAMPLE_SIZE)["rows"],
        "draws": lambda one: one.of(SAMPLE_SIZE)["drawn"],
    }
    for place, line in enumerate(_lines(overlay, overlay.series[0])):
        for part in ("mean", "sd"):
            columns[f"{line.slug}_{part}"] = partial(_cells, overlay, place, part)
    return overlay.stacked(columns)


def _cells(overlay: Overlay, place: int, part: str, one: Series) -> Sequence[Cell]:
    return _lines(overlay, one)[place].found[part]


def _draw_sample_sizes(overlay: Overlay) -> go.Figure:
    rows = [m for one in overlay.series for m in (*one.of(SAMPLE_SIZE)["rows"], one.of(SAMPLE_SIZE)["n"])]
    return plot(
        [
            *(trace for one in overlay.series for line in _lines(overlay, one) for trace in _band(overlay, one, line)),
            *(line for one in overlay.series for line in _full(overlay, one)),
        ],
        showlegend=True,
        xaxis=log_axis("Rows", rows),
        yaxis={"title": {"text": "Score (1 is isotropic)"}, "rangemode": "tozero"},
    )


def _band(overlay: Overlay, one: Series, line: SampleSizeLine) -> list[go.Scatter]:
    """The edges of the band, where draws have a spread, and the line, at the numbers of rows that have a score."""
    data = one.of(SAMPLE_SIZE)
    points = [
        At(rows, draws, mean, sd)
        for rows, draws, mean, sd in zip(data["rows"], data["drawn"], line.found["mean"], line.found["sd"], strict=True)
        if mean is not None
    ]
    spread = [(at.rows, at.mean - at.sd, at.mean + at.sd) for at in points if at.sd is not None]
    shared = {"legendgroup": one.name if overlay.several else line.slug}
    edge = {"x": [rows for rows, _, _ in spread], "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip",
            "showlegend": False, **shared}  # fmt: skip
    return [
        go.Scatter(y=[low for _, low, _ in spread], **edge),
        go.Scatter(
            y=[high for _, _, high in spread], fill="tonexty", fillcolor=palette.faded(line.colour, 0.14), **edge
        ),
        go.Scatter(
            x=[at.rows for at in points],
            y=[at.mean for at in points],
            mode="lines+markers",
            line={"color": line.colour, "width": 2, "dash": line.dash},
            marker={"size": 4},
            name=line.name,
            showlegend=not overlay.several or line.slug == "isoscore",
            customdata=[at.hover_text for at in points],
            hovertemplate=f"{line.name}<br>%{{x:,}} rows: %{{y:.3f}}%{{customdata}}<extra></extra>",
            **shared,
        ),
    ]


def _full(overlay: Overlay, one: Series) -> list[go.Scatter]:
    """What all rows score by the two scores without ζ, across the axis."""
    data = one.of(SAMPLE_SIZE)
    return [
        go.Scatter(
            x=[data["rows"][0], data["n"]],
            y=[data["full"][line.slug]] * 2,
            mode="lines",
            line={"color": line.colour, "width": 1.2, "dash": "dash"},
            name=f"all {count(data['n'])} rows",
            legendgroup=f"{one.name} all",
            showlegend=not overlay.several and line.slug == "isoscore",
            hovertemplate=f"{line.name}<br>all %{{x:,}} rows: %{{y:.3f}}<extra></extra>",
        )
        for line in _lines(overlay, one)
        if data["full"].get(line.slug) is not None
    ]


ZETAS = [step / 100 for step in range(101)]
TICKS = [0, 0.2, 0.4, 0.6, 0.8, 1]
LEAST_GAP = 0.045
"""IsoScore* between two names at the lines' beginnings."""


@dataclass(frozen=True)
class ZetaLine:
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


def read_lines(stored: Sequence[dict[str, Any]]) -> list[ZetaLine]:
    """The lines of a stored curve, from few rows to many."""
    lines = [ZetaLine(one["rows"], one["values"] or [], one["reason"]) for one in stored]
    return sorted(lines, key=lambda line: line.rows)


def choose(lines: Sequence[ZetaLine], rows: int | None) -> ZetaLine:
    """The line of so many rows, or of most."""
    return next((line for line in lines if line.rows == rows), lines[-1])


def zeta_curve(lines: Sequence[ZetaLine], chosen: ZetaLine, zeta: float, source: str) -> Figure:
    """The curve of one shrinkage covariance, with the reading at ``zeta`` marked on the chosen line."""
    return Figure(
        slug="zeta",
        title="Shrinkage by ζ",
        caption=(
            "IsoScore★ of (1 − ζ) Σₓ + ζ Σₛ. ζ = 0 uses only your rows, ζ = 1 only the shrinkage covariance: "
            f"{source}. "
            "Colored: the rows chosen above. Gray: random samples of other sizes, with a fixed seed."
            + "".join(f" Of {plural(line.rows, 'row')} it is undefined: {line.reason}" for line in lines if line.reason)
        ),
        table=Table(
            ["zeta", *(f"isoscore_star_{line.rows}_rows" for line in lines)],
            [[zeta_, *(line.at(zeta_) for line in lines)] for zeta_ in ZETAS],
        ),
        draw=partial(_draw_zeta_curve, lines, chosen, zeta),
        empty=None if any(line.drawable for line in lines) else f"IsoScore★ is undefined here: {chosen.reason}",
    )


def _draw_zeta_curve(lines: Sequence[ZetaLine], chosen: ZetaLine, zeta: float) -> go.Figure:
    named = _with_room(lines, chosen)
    others = [_line(line, palette.QUIET, 1.2, named) for line in lines if line is not chosen]
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


def _with_room(lines: Sequence[ZetaLine], chosen: ZetaLine) -> set[int]:
    """Numbers of rows whose lines begin far enough from one another to be named there; the chosen one comes first."""
    starts: dict[int, float] = {}
    for line in (chosen, *lines):
        start = line.at(0)
        if start is not None and all(abs(start - other) >= LEAST_GAP for other in starts.values()):
            starts[line.rows] = start
    return set(starts)


def _line(line: ZetaLine, colour: str, width: float, named: set[int]) -> go.Scatter:
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
