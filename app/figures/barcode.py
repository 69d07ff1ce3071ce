"""The barcode in dimension 0: at which distances groups of rows join."""

from functools import partial

import plotly.graph_objects as go

from app.figures import palette
from app.figures.axes import log_axis
from app.figures.figure import Figure, plot
from app.figures.overlay import Overlay, Series
from app.numerals import count, plural

BARCODE = "barcode"
MOST_BARS = 150
"""Of more than so many bars only the outline is drawn, and their ranks are on a logarithmic axis."""


def barcode(overlay: Overlay) -> Figure:
    """The bars from the longest to the shortest, the prominent ones coloured."""
    outline = "" if _few(overlay) else " Drawn is their outline, the ranks on a logarithmic axis."
    return Figure(
        slug="barcode",
        title="Barcode in dimension 0",
        caption="Each bar is a group of rows, as long as the distance at which it joins another: "
        f"{overlay.each(_describe)}.{_marks(overlay)}{outline}",
        table=overlay.table("rank", {"length": lengths}),
        draw=partial(_draw, overlay),
    )


def lengths(one: Series) -> list[float]:
    """The bars, longest first."""
    return sorted(one.of(BARCODE)["lengths"], reverse=True)


def _prominent(one: Series) -> int:
    return int(one.value("prominent_bars") or 0)


def _describe(one: Series) -> str:
    bars = f"{plural(len(one.of(BARCODE)['lengths']), 'bar')} of {count(one.n(BARCODE))} rows"
    if not _prominent(one):
        return bars
    gaussian = (one.subject.found["prominent_bars"].detail or {}).get("parts", {}).get("gaussian_of_the_same_size")
    beside = "" if gaussian is None else f" (a Gaussian of the same size has {count(int(gaussian))})"
    return f"{bars}, {count(_prominent(one))} of them prominent{beside}"


def _marks(overlay: Overlay) -> str:
    return " Marked: the prominent ones. They do not count groups." if any(map(_prominent, overlay.series)) else ""


def _few(overlay: Overlay) -> bool:
    return not overlay.several and len(lengths(overlay.series[0])) <= MOST_BARS


def _draw(overlay: Overlay) -> go.Figure:
    if _few(overlay):
        (one,) = overlay.series
        return _plot(
            overlay, [*_bars(overlay, one)], {"title": {"text": "Rank"}, "range": [len(lengths(one)) + 0.5, 0.5]}
        )
    most = max(len(lengths(one)) for one in overlay.series)
    axis = log_axis("Rank", [1, most])
    traces = [trace for one in overlay.series for trace in _outline(overlay, one)]
    return _plot(overlay, traces, axis | {"range": axis["range"][::-1]})


def _plot(overlay: Overlay, traces: list[go.Scatter], rank: dict[str, object]) -> go.Figure:
    return plot(
        traces,
        showlegend=overlay.several,
        xaxis={"title": {"text": "Length"}, "rangemode": "tozero"},
        yaxis=rank,
    )


def _bars(overlay: Overlay, one: Series) -> list[go.Scatter]:
    """A line from 0 for each bar: first those that are noise, then the prominent ones."""
    bars, prominent = lengths(one), _prominent(one)
    parts = ((range(prominent, len(bars)), palette.MAIN), (range(prominent), palette.MARKED))
    return [
        go.Scatter(
            x=[x for i in ranks for x in (0, bars[i], None)],
            y=[y for i in ranks for y in (i + 1, i + 1, None)],
            mode="lines",
            line={"color": colour, "width": 3 if len(bars) <= MOST_BARS / 3 else 1.2},
            hovertemplate=overlay.hover(one, "bar %{y:,}: length %{x:.3g}"),
        )
        for ranks, colour in parts
        if ranks
    ]


def _outline(overlay: Overlay, one: Series) -> list[go.Scatter]:
    """The ends of the bars as steps, over which the prominent ones are drawn thicker."""
    bars, prominent = lengths(one), _prominent(one)
    alone = {} if overlay.several else {"fill": "tozerox", "fillcolor": palette.faded(one.colour, 0.22)}
    ranks = list(range(1, len(bars) + 1))
    shared = {
        "line": {"color": one.colour, "width": 1.6, "shape": "hv"},
        "legendgroup": one.name,
        "hovertemplate": overlay.hover(one, "bar %{y:,}: length %{x:.3g}"),
    }
    marked = {"color": one.colour if overlay.several else palette.MARKED, "size": 5}
    return [
        go.Scatter(x=bars, y=ranks, mode="lines", name=one.label, **alone, **shared),
        go.Scatter(x=bars[:prominent], y=ranks[:prominent], mode="markers", marker=marked, showlegend=False,
                   legendgroup=one.name, hovertemplate=shared["hovertemplate"]),
    ]  # fmt: skip
