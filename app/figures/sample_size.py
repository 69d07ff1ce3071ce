"""What the number of rows does to IsoScore, its shrunk form IsoScore* and its bias-corrected one."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import plotly.graph_objects as go

from app.figures import palette
from app.figures.axes import log_axis
from app.figures.figure import Cell, Figure, Table, plot
from app.figures.overlay import Overlay, Series
from app.numerals import count, number, plural, short

SAMPLE_SIZE = "sample_size"


class Line(NamedTuple):
    """A score over the number of rows."""

    slug: str
    name: str
    colour: str
    dash: str
    drawn: Mapping[str, Sequence[float | None]]
    """Its "mean" and "sd" over draws of each number of rows, null where undefined."""


def sample_size(overlay: Overlay) -> Figure:
    """Scores over the number of rows drawn, beside those of all rows."""
    if overlay.several:
        what = "Full lines are IsoScore, dotted ones its bias-corrected form"
    else:
        what = "ζ = 0 is IsoScore, greater ζ IsoScore★, its covariance shrunk that far towards that of all rows"
    return Figure(
        slug=SAMPLE_SIZE,
        title="How many rows it takes",
        caption=f"Mean of {overlay.each(_draws)}, one standard deviation either side. {what}; dashed, the score of all "
        f"rows ({overlay.each(_say_full)}). Where a line still rises, it tells of their number, not of the cloud.",
        table=_table(overlay),
        draw=partial(_draw, overlay),
    )


def _draws(one: Series) -> str:
    data = one.of(SAMPLE_SIZE)
    return f"{plural(data['draws'], 'draw')} of so many of {count(data['n'])} rows"


def _say_full(one: Series) -> str:
    full = one.of(SAMPLE_SIZE)["full"]
    return f"{number(full['isoscore'])}, bias-corrected {number(full['isoscore_unbiased'])}"


def _lines(overlay: Overlay, one: Series) -> list[Line]:
    """Of one subject all scores that were drawn; of several the two without ζ, in the subject's colour."""
    data = one.of(SAMPLE_SIZE)
    plain, unbiased = data["isoscore"], data["isoscore_unbiased"]
    if overlay.several:
        return [
            Line("isoscore", one.label, one.colour, "solid", plain),
            Line("isoscore_unbiased", f"{one.label}, bias-corrected", one.colour, "dot", unbiased),
        ]
    starred = [
        Line(f"isoscore_star_zeta_{zeta:g}", short(zeta), palette.of_zeta(zeta), "solid", found)
        for zeta, found in zip(data["zetas"], data["isoscore_star"], strict=True)
        if zeta > 0
    ]
    return [
        Line("isoscore", "ζ = 0", palette.of_zeta(0), "solid", plain),
        *starred,
        Line("isoscore_unbiased", "bias-corrected", palette.MARKED, "solid", unbiased),
    ]


def _table(overlay: Overlay) -> Table:
    columns: dict[str, Callable[[Series], Sequence[Cell]]] = {"rows": lambda one: one.of(SAMPLE_SIZE)["rows"]}
    for place, line in enumerate(_lines(overlay, overlay.series[0])):
        for part in ("mean", "sd"):
            columns[f"{line.slug}_{part}"] = partial(_cells, overlay, place, part)
    return overlay.stacked(columns)


def _cells(overlay: Overlay, place: int, part: str, one: Series) -> Sequence[Cell]:
    return _lines(overlay, one)[place].drawn[part]


def _draw(overlay: Overlay) -> go.Figure:
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


def _band(overlay: Overlay, one: Series, line: Line) -> list[go.Scatter]:
    """The edges of the band and the line between them, at the numbers of rows that have a score."""
    rows = one.of(SAMPLE_SIZE)["rows"]
    defined = [
        (m, mean, sd or 0.0)
        for m, mean, sd in zip(rows, line.drawn["mean"], line.drawn["sd"], strict=True)
        if mean is not None
    ]
    shared = {"x": [m for m, _, _ in defined], "legendgroup": one.name if overlay.several else line.slug}
    edge = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
    return [
        go.Scatter(y=[mean - sd for _, mean, sd in defined], **edge, **shared),
        go.Scatter(
            y=[mean + sd for _, mean, sd in defined],
            fill="tonexty",
            fillcolor=palette.faded(line.colour, 0.14),
            **edge,
            **shared,
        ),
        go.Scatter(
            y=[mean for _, mean, _ in defined],
            mode="lines+markers",
            line={"color": line.colour, "width": 2, "dash": line.dash},
            marker={"size": 4},
            name=line.name,
            showlegend=not overlay.several or line.slug == "isoscore",
            customdata=[sd for _, _, sd in defined],
            hovertemplate=f"{line.name}<br>%{{x:,}} rows: %{{y:.3f}} ± %{{customdata:.2g}}<extra></extra>",
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
