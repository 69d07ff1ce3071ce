"""What the number of rows does to IsoScore, its shrunk form IsoScore* and its bias-corrected one."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import plotly.graph_objects as go

from app.figures import palette
from app.figures.axes import log_axis
from app.figures.figure import Cell, Figure, Table, plot
from app.figures.overlay import Overlay, Series
from isoscope.core.formatting import count, number, plural, short

SAMPLE_SIZE = "sample_size"


class At(NamedTuple):
    """A score of so many rows; one draw has no standard deviation."""

    rows: int
    draws: int
    mean: float
    sd: float | None

    @property
    def words(self) -> str:
        """What is told beside the mean."""
        spread = f" ± {number(self.sd, 2)}" if self.sd is not None else ""
        return f"{spread}, {plural(self.draws, 'draw')}"


class Line(NamedTuple):
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
        caption=f"Mean of {overlay.each(_draws)}, fewer where rows run out, and one standard deviation either side "
        f"where there are several. {what}; dashed, the score of all rows ({overlay.each(_say_full)}). If a line is "
        f"still rising, you need more rows.",
        table=_table(overlay),
        draw=partial(_draw, overlay),
    )


def _draws(one: Series) -> str:
    data = one.of(SAMPLE_SIZE)
    return f"up to {plural(data['draws'], 'draw')} of so many of {count(data['n'])} rows"


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
            customdata=[at.words for at in points],
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
