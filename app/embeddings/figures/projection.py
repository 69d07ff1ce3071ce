"""The cloud in the plane of its two leading principal components, and in the space of three."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from math import ceil, log1p, sqrt
from typing import Any, NamedTuple

import plotly.graph_objects as go

from app.embeddings.figures.overlay import Overlay, Series
from app.figures import palette
from app.figures.figure import Figure, Table, plain, plot, thinned, undefined
from isoscope.core.formatting import count

PROJECTION = "projection"
MOST_DRAWN = 50_000
"""Points of one plot: what a browser draws at once without a pause."""
FEW = 1000
"""Points that are drawn as fast without a graphics card, which asks for three times as much script."""
MANY = 5000
"""Of more points each is small and lets others through."""
LONGEST_LABEL = 18
LONGEST_NAME = 40
LEGEND = {"itemsizing": "constant", "orientation": "v", "tracegroupgap": 0, "x": 1.02, "y": 1, "yanchor": "top"}
"""At the right, where axes of one scale leave room."""
UNLABELLED = "no label"
OTHERS = "other labels"


class Points(NamedTuple):
    """Points of one color, as their places among all."""

    name: str
    colour: str
    places: Sequence[int]


def projection(overlay: Overlay) -> Figure:
    """The points by their labels, over a map of how densely all rows lie; of several subjects a panel each."""
    most = MOST_DRAWN // len(overlay.series)
    remarks = (
        "Each panel has its own components, labeled with their share of the variance. Compare shapes, not positions."
        if overlay.several
        else _remarks(overlay)
    )
    return Figure(
        slug=PROJECTION,
        title="First two principal components",
        caption=f"{overlay.each(partial(_drawn, most))}. {remarks}",
        table=numbers(overlay, "xy"),
        draw=partial(_draw_panels if overlay.several else _draw, overlay, most),
    )


def _drawn(most: int, one: Series) -> str:
    return f"{count(_points(one, most))} of {count(one.of(PROJECTION)['n'])} points drawn"


def _points(one: Series, most: int) -> int:
    """The number of points of a subject that are drawn."""
    return min(len(one.of(PROJECTION)["x"]), most)


def _kind(overlay: Overlay, most: int) -> type[go.Scatter | go.Scattergl]:
    few = sum(_points(one, most) for one in overlay.series) <= FEW
    kind: type[go.Scatter | go.Scattergl] = go.Scatter if few else go.Scattergl
    return kind


def _remarks(overlay: Overlay) -> str:
    data = overlay.series[0].of(PROJECTION)
    remarks = ["Both axes have the same scale."]
    if data["labels"]:
        remarks.append(f"The {len(palette.SERIES)} most frequent labels have their own colors.")
    if density := data["density"]:
        beyond = f", but for {count(density['outside'])} beyond its edges" if density["outside"] else ""
        remarks.append(f"Shade: number of rows{beyond}.")
    return " ".join(remarks)


def numbers(overlay: Overlay, axes: str) -> Table:
    """Return a table of the points along ``axes``, with row, name and label where they are stored."""
    components = {f"component_{i}": partial(_along, axis) for i, axis in enumerate(axes, start=1)}
    return overlay.stacked(
        ({"row": _rows} if any("rows" in one.of(PROJECTION) for one in overlay.series) else {})
        | ({"name": _names} if any(one.of(PROJECTION).get("names") for one in overlay.series) else {})
        | components
        | {"label": _labels}
    )


def _along(axis: str, one: Series) -> list[float]:
    along: list[float] = one.of(PROJECTION)[axis]
    return along


def _rows(one: Series) -> list[float | None]:
    """The row of the file that each point is, from 0; None where it was measured before rows were kept."""
    data = one.of(PROJECTION)
    return data.get("rows") or [None] * len(data["x"])


def _names(one: Series) -> list[str]:
    """The name of each point, empty where rows have none, or were measured before names were kept."""
    data = one.of(PROJECTION)
    return data.get("names") or [""] * len(data["x"])


def _labels(one: Series) -> list[str]:
    """The label of each point, empty where it has none."""
    data = one.of(PROJECTION)
    if data["labels"] is None:
        return [""] * len(data["x"])
    names = data["labels"]["names"]
    return [names[code] for code in data["labels"]["codes"]]


def colours_of(overlay: Overlay) -> dict[str, str]:
    """The colors of the most frequent labels of all subjects."""
    sizes = Counter(label for one in overlay.series for label in _labels(one) if label)
    return dict(zip([label for label, _ in sizes.most_common(len(palette.SERIES))], palette.SERIES, strict=False))


def points_of(one: Series, most: int, colours: dict[str, str]) -> list[Points]:
    """The points drawn by their labels, those behind first that have no color of their own."""
    labels = _labels(one)
    places = thinned(range(len(labels)), most)
    if one.of(PROJECTION)["labels"] is None:
        return [Points(one.label, palette.QUIET if colours else one.colour, places)]
    members: dict[str, list[int]] = {UNLABELLED: [], OTHERS: [], **{label: [] for label in colours}}
    for i in places:
        label = labels[i]
        members[label if label in colours else OTHERS if label else UNLABELLED].append(i)
    return [Points(name, colours.get(name, palette.QUIET), those) for name, those in members.items() if those]


def _draw(overlay: Overlay, most: int) -> go.Figure:
    (one,) = overlay.series
    points = points_of(one, most, colours_of(overlay))
    density = one.of(PROJECTION)["density"]
    kind = _kind(overlay, most)
    return plot(
        [
            *([_shade(density)] if density else []),
            *(_markers(kind, one, drawn, in_key(drawn), most) for drawn in points),
        ],
        showlegend=one.of(PROJECTION)["labels"] is not None,
        legend=LEGEND,
        xaxis=_axis(one, 0),
        yaxis=_axis(one, 1) | {"scaleanchor": "x"},
    )  # fmt: skip


def _draw_panels(overlay: Overlay, most: int) -> go.Figure:
    colours = colours_of(overlay)
    kind = _kind(overlay, most)
    columns = ceil(sqrt(len(overlay.series)))
    traces, named, axes, names = [], set[str](), {}, []
    for i, one in enumerate(overlay.series):
        suffix = str(i + 1) if i else ""
        for drawn in points_of(one, most, colours):
            in_legend = bool(colours) and drawn.name not in named and one.of(PROJECTION)["labels"] is not None
            named.add(drawn.name)
            traces.append(
                _markers(kind, one, drawn, plain(drawn.name, LONGEST_LABEL), most).update(
                    xaxis=f"x{suffix}", yaxis=f"y{suffix}", showlegend=in_legend
                )
            )
        quiet = {"showticklabels": False, "ticks": ""}
        axes[f"xaxis{suffix}"] = quiet | {"title": _share(one, 0)}
        axes[f"yaxis{suffix}"] = quiet | {"title": _share(one, 1), "scaleanchor": f"x{suffix}"}
        names.append({"text": one.label, "xref": f"x{suffix} domain", "yref": f"y{suffix} domain", "x": 0, "y": 1,
                      "xanchor": "left", "yanchor": "bottom", "showarrow": False})  # fmt: skip
    rows = ceil(len(overlay.series) / columns)
    grid = {"rows": rows, "columns": columns, "pattern": "independent", "xgap": 0.12, "ygap": 0.3}
    return plot(traces, annotations=names, grid=grid, showlegend=bool(colours), legend=LEGEND, **axes)


def _axis(one: Series, component: int) -> dict[str, Any]:
    share = one.of(PROJECTION)["shares"][component]
    return {"title": {"text": f"Component {component + 1} ({share:.1%} of variance)"}, "constrain": "domain"}


def _share(one: Series, component: int) -> dict[str, Any]:
    """The title of a small panel's axis."""
    return {"text": f"{one.of(PROJECTION)['shares'][component]:.1%}", "font": {"size": 11}, "standoff": 2}


def _markers(
    kind: type[go.Scatter | go.Scattergl], one: Series, drawn: Points, name: str, most: int
) -> go.Scatter | go.Scattergl:
    return kind(
        **shown(one, drawn, "xy"),
        marker={"color": drawn.colour, "size": 3 if _points(one, most) > MANY else 5},
        name=name,
        legendgroup=drawn.name,
    )


def shown(one: Series, drawn: Points, axes: str) -> dict[str, Any]:
    """Return coordinates along ``axes`` and hover texts of the points of one color, as arguments of a trace."""
    data = one.of(PROJECTION)
    names = _names(one) if data.get("names") else None
    values = ", ".join(f"%{{{axis}:.3g}}" for axis in axes)
    return {axis: [data[axis][i] for i in drawn.places] for axis in axes} | {
        "mode": "markers",
        "text": [plain(names[i], LONGEST_NAME) for i in drawn.places] if names else None,
        "hovertemplate": ("%{text}<br>" if names else "")
        + f"{plain(drawn.name, LONGEST_LABEL)}<br>{values}<extra></extra>",
    }


def in_key(drawn: Points) -> str:
    """Return the legend entry of the points of one color, with their count."""
    return f"{plain(drawn.name, LONGEST_LABEL)} ({count(len(drawn.places))})"


def _shade(density: dict[str, Any]) -> go.Heatmap:
    """Rows in each cell of a grid, by the logarithm of their number; empty cells let the paper through."""
    return go.Heatmap(
        x=density["x_edges"],
        y=density["y_edges"],
        z=[[log1p(rows) for rows in row] for row in density["counts"]],
        colorscale=[[0, palette.faded(palette.QUIET, 0)], [1, palette.faded(palette.QUIET, 0.6)]],
        showscale=False,
        # Without, plotly would give the image a style, which the Content-Security-Policy forbids.
        zsmooth="best",
        hoverinfo="skip",
    )


SPACE = "space"
SPACE_TITLE = "First three principal components"
MOST_IN_SPACE = 10_000
"""Maximum number of points: a browser without a graphics card still turns them smoothly."""
MANY_IN_SPACE = 2000
"""Number of points above which each is drawn smaller."""
CAMERA = {"projection": {"type": "orthographic"}}
"""No perspective: distant points are as large as near ones, as in the 2-D figure."""
LONGEST = 1.45
"""Length of the longest axis in camera units: the box and its labels fit at every angle."""


def space(overlay: Overlay) -> Figure:
    """Draw the points of one subject, colored by label, on axes with the same scale."""
    (one,) = overlay.series
    data = one.of(PROJECTION)
    if "z" not in data:
        return undefined(SPACE, SPACE_TITLE, "An earlier version measured this embedding, along two components alone.")
    if not data["shares"][2]:
        return undefined(SPACE, SPACE_TITLE, "These rows lie in a plane: there is no third component.")
    return Figure(
        slug=SPACE,
        title=SPACE_TITLE,
        caption=f"{count(min(len(data['z']), MOST_IN_SPACE))} of {count(data['n'])} points drawn. The components have "
        f"{', '.join(f'{share:.1%}' for share in data['shares'])} of the variance. All axes have the same scale. "
        "Drag to turn it.",
        table=numbers(overlay, "xyz"),
        draw=partial(_draw_space, overlay),
    )


def _draw_space(overlay: Overlay) -> go.Figure:
    (one,) = overlay.series
    data = one.of(PROJECTION)
    many = len(data["z"]) > MANY_IN_SPACE
    traces = [
        go.Scatter3d(
            **shown(one, drawn, "xyz"), marker={"color": drawn.colour, "size": 2 if many else 3}, name=in_key(drawn)
        )
        for drawn in points_of(one, MOST_IN_SPACE, colours_of(overlay))
    ]
    spans = {axis: max(data[axis]) - min(data[axis]) for axis in "xyz"}
    ratio = {axis: LONGEST * span / max(spans.values()) for axis, span in spans.items()}
    scene: dict[str, Any] = {"aspectmode": "manual", "aspectratio": ratio, "camera": CAMERA, "dragmode": "turntable"}
    for number, axis in enumerate("xyz", start=1):
        title = {"text": f"Component {number}", "font": {"size": 12}}
        scene[f"{axis}axis"] = {"title": title, "tickfont": {"size": 11}, "nticks": 6, "showspikes": False}
    return plot(
        traces,
        scene=scene,
        showlegend=data["labels"] is not None,
        legend={"itemsizing": "constant"},
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
    )
