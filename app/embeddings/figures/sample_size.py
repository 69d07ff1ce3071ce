"""IsoScore by number of rows and by zeta: the sample-size figure and the shrinkage-zeta curve."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import plotly.graph_objects as go
from pydantic import BaseModel

from app.embeddings.figures.overlay import Overlay, Series
from app.figures import palette
from app.figures.figure import Cell, Figure, FigureTable, band, log_axis, plot
from isoscope.core.formatting import count, number, plural, short

SAMPLE_SIZE = "sample_size"
ZETA_STEPS = 100
ZETAS = [step / ZETA_STEPS for step in range(ZETA_STEPS + 1)]
ZETA_TICKS = [0, 0.2, 0.4, 0.6, 0.8, 1]
# Minimum difference of IsoScore* at zeta = 0 between lines that are labeled there, so that labels do not overlap.
MIN_NAME_GAP = 0.045


class SampleSizeLine(NamedTuple):
    """A score by the number of rows."""

    slug: str
    name: str
    color: str
    dash: str
    scores: Mapping[str, Sequence[float | None]]
    """"mean" and "sd" of the score over draws, by number of rows; None where undefined."""


def sample_size(overlay: Overlay) -> Figure:
    lines_note = "ζ = 0 is IsoScore. A larger ζ shrinks the covariance toward that of all rows (IsoScore★)"
    if overlay.several:
        lines_note = "Full lines are IsoScore, dotted ones its bias-corrected form"
    draws_note = overlay.describe(
        lambda series: (
            f"up to {plural(series.detail(SAMPLE_SIZE)['draws'], 'draw')} of that many of "
            f"{count(series.detail(SAMPLE_SIZE)['n'])} rows"
        )
    )
    full_scores = overlay.describe(
        lambda series: (
            f"{number(series.detail(SAMPLE_SIZE)['full']['isoscore'])}, bias-corrected "
            f"{number(series.detail(SAMPLE_SIZE)['full']['isoscore_unbiased'])}"
        )
    )

    def read_cells(index: int, statistic: str, series: Series) -> Sequence[Cell]:
        return _list_score_lines(overlay, series)[index].scores[statistic]

    columns: dict[str, Callable[[Series], Sequence[Cell]]] = {
        "rows": lambda series: series.detail(SAMPLE_SIZE)["rows"],
        "draws": lambda series: series.detail(SAMPLE_SIZE)["drawn"],
    }
    for index, line in enumerate(_list_score_lines(overlay, overlay.series[0])):
        for statistic in ("mean", "sd"):
            columns[f"{line.slug}_{statistic}"] = partial(read_cells, index, statistic)
    return Figure(
        slug=SAMPLE_SIZE,
        title="How many rows it takes",
        caption=f"Mean of {draws_note}, or fewer if rows run out. Bands are one standard "
        f"deviation each way. {lines_note}. Dashed: the score of all rows ({full_scores}). If a line "
        "still rises or falls, you need more rows.",
        table=overlay.stacked_table(columns),
        draw=partial(_draw_sample_sizes, overlay),
    )


def _list_score_lines(overlay: Overlay, series: Series) -> list[SampleSizeLine]:
    """Return all lines of a single subject; of several, only the two lines without ζ, in the color of ``series``."""
    data = series.detail(SAMPLE_SIZE)
    plain, unbiased = data["isoscore"], data["isoscore_unbiased"]
    if overlay.several:
        return [
            SampleSizeLine("isoscore", series.label, series.color, "solid", plain),
            SampleSizeLine("isoscore_unbiased", f"{series.label}, bias-corrected", series.color, "dot", unbiased),
        ]
    shrunk = [
        SampleSizeLine(f"isoscore_star_zeta_{zeta:g}", short(zeta), palette.ordered_color(zeta), "solid", scores)
        for zeta, scores in zip(data["zetas"], data["isoscore_star"], strict=True)
        if zeta > 0
    ]
    return [
        SampleSizeLine("isoscore", "ζ = 0", palette.ordered_color(0), "solid", plain),
        *shrunk,
        SampleSizeLine("isoscore_unbiased", "bias-corrected", palette.MARKED, "solid", unbiased),
    ]


def _draw_sample_sizes(overlay: Overlay) -> go.Figure:
    row_counts, traces, all_rows_lines = [], [], []
    for series in overlay.series:
        data = series.detail(SAMPLE_SIZE)
        row_counts += [*data["rows"], data["n"]]
        for line in _list_score_lines(overlay, series):
            traces += _draw_band(overlay, series, line)
            # Only lines without ζ have a score of all rows.
            if (score := data["full"].get(line.slug)) is not None:
                all_rows_lines.append(
                    go.Scatter(
                        x=[data["rows"][0], data["n"]],
                        y=[score] * 2,
                        mode="lines",
                        line={"color": line.color, "width": 1.2, "dash": "dash"},
                        name=f"all {count(data['n'])} rows",
                        legendgroup=f"{series.name} all",
                        showlegend=not overlay.several and line.slug == "isoscore",
                        hovertemplate=f"{line.name}<br>all %{{x:,}} rows: %{{y:.3f}}<extra></extra>",
                    )
                )
    return plot(
        traces + all_rows_lines,
        showlegend=True,
        xaxis=log_axis("Rows", row_counts),
        yaxis={"title": {"text": "Score (1 is isotropic)"}, "rangemode": "tozero"},
    )


def _draw_band(overlay: Overlay, series: Series, line: SampleSizeLine) -> list[go.Scatter]:
    """Return the edges of a band of one standard deviation, then the line of means, where they are defined."""
    data = series.detail(SAMPLE_SIZE)
    columns = zip(data["rows"], data["drawn"], line.scores["mean"], line.scores["sd"], strict=True)
    points = [(rows, draws, mean, sd) for rows, draws, mean, sd in columns if mean is not None]
    intervals = [(rows, mean - sd, mean + sd) for rows, _, mean, sd in points if sd is not None]
    group = {"legendgroup": series.name if overlay.several else line.slug}
    sizes, low, high = ([interval[column] for interval in intervals] for column in range(3))
    hover_texts = [
        f"{'' if sd is None else f' (SD {number(sd, 2)})'}, {plural(draws, 'draw')}" for _, draws, _, sd in points
    ]
    return [
        *band(sizes, low, high, line.color, 0.14, **group),
        go.Scatter(
            x=[rows for rows, *_ in points],
            y=[mean for _, _, mean, _ in points],
            mode="lines+markers",
            line={"color": line.color, "width": 2, "dash": line.dash},
            marker={"size": 4},
            name=line.name,
            showlegend=not overlay.several or line.slug == "isoscore",
            customdata=hover_texts,
            hovertemplate=f"{line.name}<br>%{{x:,}} rows: %{{y:.3f}}%{{customdata}}<extra></extra>",
            **group,
        ),
    ]


class ZetaLine(BaseModel):
    """IsoScore* of ``rows`` rows at each zeta of the curve; null where undefined."""

    rows: int
    values: list[float | None] | None
    reason: str | None = None

    def score_at(self, zeta: float) -> float | None:
        """Return IsoScore* at the nearest of ``ZETAS``."""
        return self.values[round(zeta * ZETA_STEPS)] if self.values else None


def parse_zeta_lines(stored: Sequence[dict[str, Any]]) -> list[ZetaLine]:
    return sorted((ZetaLine.model_validate(line) for line in stored), key=lambda line: line.rows)


def choose_zeta_line(lines: Sequence[ZetaLine], rows: int | None) -> ZetaLine:
    """Return the line for this number of rows, else the last line."""
    return next((line for line in lines if line.rows == rows), lines[-1])


def zeta_curve(lines: Sequence[ZetaLine], chosen: ZetaLine, zeta: float, source: str) -> Figure:
    """Draw all lines, with a mark at ``zeta`` on the chosen one. ``source`` names the covariance at ζ = 1."""
    has_values = any(value is not None for line in lines for value in line.values or [])
    return Figure(
        slug="zeta",
        title="Shrinkage by ζ",
        caption=(
            "IsoScore★ of (1 − ζ) Σₓ + ζ Σₛ. ζ = 0 uses only your rows, ζ = 1 only the shrinkage covariance: "
            f"{source}. "
            "Colored: the rows chosen above. Gray: random samples of other sizes, with a fixed seed."
            + "".join(f" Of {plural(line.rows, 'row')} it is undefined: {line.reason}" for line in lines if line.reason)
        ),
        table=FigureTable(
            ["zeta", *(f"isoscore_star_{line.rows}_rows" for line in lines)],
            [[step, *(line.score_at(step) for line in lines)] for step in ZETAS],
        ),
        draw=partial(_draw_zeta_curve, lines, chosen, zeta),
        empty=None if has_values else f"IsoScore★ is undefined here: {chosen.reason}",
    )


def _draw_zeta_curve(lines: Sequence[ZetaLine], chosen: ZetaLine, zeta: float) -> go.Figure:
    # Label the chosen line at its start, and then those lines that start far enough from all labeled ones.
    starts: dict[int, float] = {}
    for line in (chosen, *lines):
        start = line.score_at(0)
        if start is not None and all(abs(start - labeled_start) >= MIN_NAME_GAP for labeled_start in starts.values()):
            starts[line.rows] = start
    gray_lines = [_draw_zeta_line(line, palette.QUIET, 1.2, starts) for line in lines if line is not chosen]
    score = chosen.score_at(zeta)
    mark = go.Scatter(
        x=[zeta],
        y=[score],
        mode="markers+text",
        marker={"color": palette.MARKED, "size": 11},
        text=[number(score)],
        textposition="top center" if zeta < 0.9 else "top left",  # stays inside the plot
        hoverinfo="skip",
    )
    return plot(
        [*gray_lines, _draw_zeta_line(chosen, palette.MAIN, 2.4, starts), mark],
        xaxis={"title": {"text": "Shrinkage ζ"}, "range": [-0.16, 1.02], "tickvals": ZETA_TICKS},
        yaxis={"title": {"text": "IsoScore★ (1 is isotropic)"}, "rangemode": "tozero"},
    )


def _draw_zeta_line(line: ZetaLine, color: str, width: float, labeled_rows: Collection[int]) -> go.Scatter:
    """Return a line labeled with its number of rows at the start, because all lines end in one point."""
    return go.Scatter(
        x=ZETAS,
        y=line.values or [],
        mode="lines+text",
        line={"color": color, "width": width},
        text=[f"{count(line.rows)} " if line.rows in labeled_rows else "", *[""] * (len(ZETAS) - 1)],
        textposition="middle left",
        cliponaxis=False,
        hovertemplate=f"{count(line.rows)} rows<br>ζ = %{{x}}: %{{y:.3f}}<extra></extra>",
    )
