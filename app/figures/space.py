"""A cloud in three dimensions beside the same cloud centred: in space, or flat as its three projections."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import plotly.graph_objects as go

from app.figures import palette
from app.figures.figure import Figure, Table, plot
from app.playground.clouds import SHAPES, cloud
from app.playground.grid import Position
from isoscope.core.formatting import plural

AXES = ("x", "y", "z")
RANGES = ((-4.0, 10.6), (-3.3, 3.3), (-3.3, 3.3))
"""Of the axes, the same for every cloud, so that a shift is seen as one."""
DECIMALS = 4
Points = Sequence[Sequence[float]]
Span = tuple[float, float]

PANELS: dict[tuple[int, int], tuple[Span, Span]] = {
    (0, 2): ((0.0, 0.64), (0.56, 1.0)),
    (1, 2): ((0.72, 1.0), (0.56, 1.0)),
    (0, 1): ((0.0, 0.64), (0.0, 0.44)),
}
"""Where each pair of axes is drawn, as parts of the figure's width and height."""
LENGTH = 1.8
"""Of the first axis, in units of the camera."""
CAMERA = {"eye": {"x": 0.75, "y": -1.75, "z": 0.6}, "center": {"x": 0, "y": 0, "z": -0.12}}
TURNED = "by the reader"
"""While this stays the same, plotly leaves the camera where the reader turned it."""
ZERO = palette.faded(palette.QUIET, 0.6)


def cloud_figure(position: Position, *, flat: bool = False) -> Figure:
    """The points of a position, drawn in space unless ``flat``."""
    points = cloud(*position).round(DECIMALS).tolist()
    centred = cloud(*position._replace(shift=0.0)).round(DECIMALS).tolist() if position.shift else []
    beside = " Gray: the same cloud, centered." if centred else ""
    turn = "" if flat else " Drag to turn it."
    return Figure(
        slug="cloud",
        title=f"{SHAPES[position.shape].name}, {plural(position.n, 'point')}",
        caption=(
            f"The colored line connects the origin to the mean of the points.{beside} The unit is the root "
            f"mean square distance of the points from their mean.{turn}"
        ),
        table=Table(list(AXES), points),
        draw=partial(_flat if flat else _solid, points, centred, position.shift),
    )


def _solid(points: Points, centred: Points, shift: float) -> go.Figure:
    longest = max(high - low for low, high in RANGES)
    scene: dict[str, Any] = {
        "aspectmode": "manual",
        "aspectratio": {name: LENGTH * (high - low) / longest for name, (low, high) in zip(AXES, RANGES, strict=True)},
        "camera": CAMERA,
        "dragmode": "turntable",
    }
    for name, span in zip(AXES, RANGES, strict=True):
        scene[f"{name}axis"] = {
            "title": {"text": name}, "range": span, "dtick": 2, "showbackground": False, "showspikes": False,
        }  # fmt: skip
    to_mean = go.Scatter3d(
        x=[0, shift], y=[0, 0], z=[0, 0],
        mode="lines+markers",
        line={"color": palette.MARKED, "width": 6},
        marker={"color": palette.MARKED, "size": [6, 4], "symbol": ["cross", "circle"]},
        hoverinfo="skip",
    )  # fmt: skip
    traces = [_through_origin(), _in_space(centred, palette.QUIET), _in_space(points, palette.MAIN), to_mean]
    return plot(traces, scene=scene, uirevision=TURNED, margin={"l": 0, "r": 0, "t": 0, "b": 0})


def _through_origin() -> go.Scatter3d:
    """Three lines as long as the axes, since points may hide the origin itself."""
    ends: list[list[float | None]] = []
    for axis, span in enumerate(RANGES):
        ends += [[end if axis == other else 0 for other in range(len(RANGES))] for end in span]
        ends.append([None] * len(RANGES))
    x, y, z = zip(*ends, strict=True)
    top = z.index(RANGES[2][1])
    return go.Scatter3d(
        x=x, y=y, z=z,
        mode="lines+text",
        line={"color": palette.QUIET, "width": 2},
        text=["origin" if place == top else "" for place in range(len(ends))],
        textposition="top center", textfont={"color": palette.QUIET},
        hoverinfo="skip",
    )  # fmt: skip


def _in_space(points: Points, colour: str) -> go.Scatter3d:
    return go.Scatter3d(
        x=[point[0] for point in points],
        y=[point[1] for point in points],
        z=[point[2] for point in points],
        mode="markers",
        marker={"size": _size(len(points)), "color": colour, "line": {"width": 0}},
        hovertemplate="(%{x:.2f}, %{y:.2f}, %{z:.2f})<extra></extra>",
    )


def _flat(points: Points, centred: Points, shift: float) -> go.Figure:
    """A panel for each plane, as on an engineer's drawing, all in one unit."""
    traces: list[go.Scatter] = []
    layout: dict[str, Any] = {}
    for panel, (plane, domains) in enumerate(PANELS.items(), 1):
        layout |= _axes(panel, plane, domains)
        to_mean = go.Scatter(
            **_projected([(0, 0, 0), (shift, 0, 0)], plane),
            mode="lines+markers",
            line={"color": palette.MARKED, "width": 2.4},
            marker={"color": palette.MARKED, "size": [10, 7], "symbol": ["cross", "circle"]},
            hoverinfo="skip",
        )
        own = (_in_plane(centred, plane, palette.QUIET), _in_plane(points, plane, palette.MAIN), to_mean)
        traces += [trace.update(xaxis=f"x{panel}", yaxis=f"y{panel}") for trace in own]
    return plot(traces, **layout)


def _axes(panel: int, plane: tuple[int, int], domains: tuple[Span, Span]) -> dict[str, Any]:
    x, y = plane
    shared = {"dtick": 2, "zeroline": True, "zerolinecolor": ZERO, "constrain": "domain"}
    across = {"title": {"text": AXES[x]}, "range": RANGES[x], "domain": domains[0], "anchor": f"y{panel}"}
    up = {"title": {"text": AXES[y]}, "range": RANGES[y], "domain": domains[1], "anchor": f"x{panel}"}
    return {f"xaxis{panel}": shared | across, f"yaxis{panel}": shared | up | {"scaleanchor": f"x{panel}"}}


def _in_plane(points: Points, plane: tuple[int, int], colour: str) -> go.Scatter:
    return go.Scatter(
        **_projected(points, plane),
        mode="markers",
        marker={"size": _size(len(points)), "color": colour},
        hovertemplate="(%{x:.2f}, %{y:.2f})<extra></extra>",
    )


def _projected(points: Points, plane: tuple[int, int]) -> dict[str, list[float]]:
    x, y = plane
    return {"x": [point[x] for point in points], "y": [point[y] for point in points]}


def _size(points: int) -> float:
    """Of a marker: fewer points are drawn larger."""
    return 2.5 if points > 1000 else 3.5 if points > 100 else 6
