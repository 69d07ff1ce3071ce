"""The cloud in the plane of its two leading principal components, and in the space of three."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from math import ceil, log1p, sqrt
from typing import Any, NamedTuple

import plotly.graph_objects as go

from app.embeddings.figures.overlay import Overlay, Series
from app.figures import palette
from app.figures.figure import Cell, Figure, FigureTable, escape_text, pick_evenly, plot, undefined_figure
from isoscope.core.formatting import count

PROJECTION = "projection"
MAX_DRAWN_POINTS = 50_000  # Points of one plot: what a browser draws at once without a pause
MAX_WITHOUT_WEBGL = 1000  # Up to this many points, SVG is as fast as WebGL, which needs three times as much script
LARGE_POINT_COUNT = 5000  # More points have smaller markers
LONGEST_LABEL = 18
LONGEST_NAME = 40
LEGEND = {"itemsizing": "constant", "orientation": "v", "tracegroupgap": 0, "x": 1.02, "y": 1, "yanchor": "top"}
"""At the right, where axes of one scale leave room."""
UNLABELED = "no label"
OTHER_LABELS = "other labels"
SPACE = "space"
SPACE_TITLE = "First three principal components"
MAX_POINTS_IN_SPACE = 10_000  # Maximum number of points: a browser without a graphics card still turns them smoothly
LARGE_SPACE_COUNT = 2000  # More points have smaller markers
CAMERA = {"projection": {"type": "orthographic"}}  # Distant points are as large as near ones, as in the 2-D figure
LONGEST_AXIS = 1.45  # Length of the longest axis in camera units: the box and its labels fit at every angle
TraceType = type[go.Scatter | go.Scattergl]


class PointGroup(NamedTuple):
    """Points of one color, by their indices among the stored points."""

    name: str
    color: str
    indices: Sequence[int]


def projection(overlay: Overlay) -> Figure:
    """Draw the points, colored by label, in one panel per subject; a single one also has the density of all rows."""
    max_points = MAX_DRAWN_POINTS // len(overlay.series)
    remarks = [
        "Each panel has its own components, labeled with their share of the variance. Compare shapes, not positions."
    ]
    if not overlay.several:
        data = overlay.series[0].detail(PROJECTION)
        remarks = ["Both axes have the same scale."]
        if data["labels"]:
            remarks.append(f"The {len(palette.SERIES)} most frequent labels have their own colors.")
        if density := data["density"]:
            outside_note = f", but for {count(density['outside'])} beyond its edges" if density["outside"] else ""
            remarks.append(f"Shade: number of rows{outside_note}.")
    sizes = overlay.describe(
        lambda series: (
            f"{count(_count_drawn(series, max_points))} of {count(series.detail(PROJECTION)['n'])} points drawn"
        )
    )
    draws_few = sum(_count_drawn(series, max_points) for series in overlay.series) <= MAX_WITHOUT_WEBGL
    trace_type: TraceType = go.Scatter if draws_few else go.Scattergl
    return Figure(
        slug=PROJECTION,
        title="First two principal components",
        caption=f"{sizes}. {' '.join(remarks)}",
        table=_tabulate_points(overlay, "xy"),
        draw=partial(_draw_panels if overlay.several else _draw_single, overlay, max_points, trace_type),
    )


def _count_drawn(series: Series, max_points: int) -> int:
    return min(len(series.detail(PROJECTION)["x"]), max_points)


def _tabulate_points(overlay: Overlay, axes: str) -> FigureTable:
    """Return the points along ``axes``, "xy" or "xyz", with their row, name and label if these are stored."""

    def read_column(key: str, missing: Cell, series: Series) -> Sequence[Cell]:
        data = series.detail(PROJECTION)
        return data.get(key) or [missing] * len(data["x"])

    columns: dict[str, Callable[[Series], Sequence[Cell]]] = {}
    if any("rows" in series.detail(PROJECTION) for series in overlay.series):
        columns["row"] = partial(read_column, "rows", None)
    if any(series.detail(PROJECTION).get("names") for series in overlay.series):
        columns["name"] = partial(read_column, "names", "")
    columns |= {f"component_{i}": partial(read_column, axis, None) for i, axis in enumerate(axes, start=1)}
    return overlay.stacked_table(columns | {"label": _list_labels})


def _list_labels(series: Series) -> list[str]:
    data = series.detail(PROJECTION)
    if data["labels"] is None:
        return [""] * len(data["x"])
    names = data["labels"]["names"]
    return [names[code] for code in data["labels"]["codes"]]


def _assign_label_colors(overlay: Overlay) -> dict[str, str]:
    sizes = Counter(label for series in overlay.series for label in _list_labels(series) if label)
    return dict(zip([label for label, _ in sizes.most_common(len(palette.SERIES))], palette.SERIES, strict=False))


def _group_points(series: Series, max_points: int, colors: dict[str, str]) -> list[PointGroup]:
    """Group the points to draw by label. Points of labels without their own color come first, behind the others."""
    labels = _list_labels(series)
    indices = pick_evenly(range(len(labels)), max_points)
    if series.detail(PROJECTION)["labels"] is None:
        return [PointGroup(series.label, palette.QUIET if colors else series.color, indices)]
    members: dict[str, list[int]] = {UNLABELED: [], OTHER_LABELS: [], **{label: [] for label in colors}}
    for i in indices:
        label = labels[i]
        members[label if label in colors else OTHER_LABELS if label else UNLABELED].append(i)
    return [PointGroup(name, colors.get(name, palette.QUIET), group) for name, group in members.items() if group]


def _draw_single(overlay: Overlay, max_points: int, trace_type: TraceType) -> go.Figure:
    (series,) = overlay.series
    groups = _group_points(series, max_points, _assign_label_colors(overlay))
    density = series.detail(PROJECTION)["density"]
    traces = []
    if density:
        traces.append(
            go.Heatmap(
                x=density["x_edges"],
                y=density["y_edges"],
                z=[[log1p(rows) for rows in row] for row in density["counts"]],
                colorscale=[[0, palette.with_opacity(palette.QUIET, 0)], [1, palette.with_opacity(palette.QUIET, 0.6)]],
                showscale=False,
                # Otherwise plotly would give the image a style, which the Content-Security-Policy forbids.
                zsmooth="best",
                hoverinfo="skip",
            )
        )
    for group in groups:
        legend_name = f"{escape_text(group.name, LONGEST_LABEL)} ({count(len(group.indices))})"
        traces.append(_draw_markers(trace_type, series, group, legend_name, max_points))
    x_axis, y_axis = (
        {"title": {"text": f"Component {component} ({share:.1%} of variance)"}, "constrain": "domain"}
        for component, share in enumerate(series.detail(PROJECTION)["shares"][:2], 1)
    )
    return plot(
        traces,
        showlegend=series.detail(PROJECTION)["labels"] is not None,
        legend=LEGEND,
        xaxis=x_axis,
        yaxis=y_axis | {"scaleanchor": "x"},
    )


def _draw_panels(overlay: Overlay, max_points: int, trace_type: TraceType) -> go.Figure:
    colors = _assign_label_colors(overlay)
    columns = ceil(sqrt(len(overlay.series)))
    traces, legend_names, annotations = [], set[str](), []
    axes: dict[str, dict[str, Any]] = {}
    for i, series in enumerate(overlay.series):
        suffix = str(i + 1) if i else ""  # plotly names the axes of panels x, x2, x3, ...
        for group in _group_points(series, max_points, colors):
            in_legend = (
                bool(colors) and group.name not in legend_names and series.detail(PROJECTION)["labels"] is not None
            )
            legend_names.add(group.name)
            traces.append(
                _draw_markers(trace_type, series, group, escape_text(group.name, LONGEST_LABEL), max_points).update(
                    xaxis=f"x{suffix}", yaxis=f"y{suffix}", showlegend=in_legend
                )
            )
        axes[f"xaxis{suffix}"], axes[f"yaxis{suffix}"] = (
            {
                "showticklabels": False,
                "ticks": "",
                "title": {"text": f"{share:.1%}", "font": {"size": 11}, "standoff": 2},
            }
            for share in series.detail(PROJECTION)["shares"][:2]
        )
        axes[f"yaxis{suffix}"]["scaleanchor"] = f"x{suffix}"
        annotations.append({"text": series.label, "xref": f"x{suffix} domain", "yref": f"y{suffix} domain", "x": 0,
                            "y": 1, "xanchor": "left", "yanchor": "bottom", "showarrow": False})  # fmt: skip
    rows = ceil(len(overlay.series) / columns)
    grid = {"rows": rows, "columns": columns, "pattern": "independent", "xgap": 0.12, "ygap": 0.3}
    return plot(traces, annotations=annotations, grid=grid, showlegend=bool(colors), legend=LEGEND, **axes)


def _draw_markers(
    trace_type: TraceType, series: Series, group: PointGroup, name: str, max_points: int
) -> go.Scatter | go.Scattergl:
    return trace_type(
        **_list_point_arguments(series, group, "xy"),
        marker={"color": group.color, "size": 3 if _count_drawn(series, max_points) > LARGE_POINT_COUNT else 5},
        name=name,
        legendgroup=group.name,
    )


def _list_point_arguments(series: Series, group: PointGroup, axes: str) -> dict[str, Any]:
    """Return trace arguments for points of one color: coordinates along ``axes``, "xy" or "xyz", and hover texts."""
    data = series.detail(PROJECTION)
    names = data.get("names")
    values = ", ".join(f"%{{{axis}:.3g}}" for axis in axes)
    return {axis: [data[axis][i] for i in group.indices] for axis in axes} | {
        "mode": "markers",
        "text": [escape_text(names[i], LONGEST_NAME) for i in group.indices] if names else None,
        "hovertemplate": ("%{text}<br>" if names else "")
        + f"{escape_text(group.name, LONGEST_LABEL)}<br>{values}<extra></extra>",
    }


def projection_3d(overlay: Overlay) -> Figure:
    (series,) = overlay.series
    data = series.detail(PROJECTION)
    if "z" not in data:
        return undefined_figure(
            SPACE, SPACE_TITLE, "An earlier version measured this embedding, along only two components."
        )
    if not data["shares"][2]:
        return undefined_figure(SPACE, SPACE_TITLE, "These rows lie in a plane: there is no third component.")
    return Figure(
        slug=SPACE,
        title=SPACE_TITLE,
        caption=f"{count(min(len(data['z']), MAX_POINTS_IN_SPACE))} of {count(data['n'])} points drawn. The components "
        f"have {', '.join(f'{share:.1%}' for share in data['shares'])} of the variance. All axes have the same scale. "
        "Drag to turn it.",
        table=_tabulate_points(overlay, "xyz"),
        draw=partial(_draw_space, overlay),
    )


def _draw_space(overlay: Overlay) -> go.Figure:
    (series,) = overlay.series
    data = series.detail(PROJECTION)
    is_large = len(data["z"]) > LARGE_SPACE_COUNT
    traces = [
        go.Scatter3d(
            **_list_point_arguments(series, group, "xyz"),
            marker={"color": group.color, "size": 2 if is_large else 3},
            name=f"{escape_text(group.name, LONGEST_LABEL)} ({count(len(group.indices))})",
        )
        for group in _group_points(series, MAX_POINTS_IN_SPACE, _assign_label_colors(overlay))
    ]
    spans = {axis: max(data[axis]) - min(data[axis]) for axis in "xyz"}
    ratio = {axis: LONGEST_AXIS * span / max(spans.values()) for axis, span in spans.items()}
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
