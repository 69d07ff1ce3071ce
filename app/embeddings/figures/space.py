"""The cloud along its three leading principal components, to be turned."""

from functools import partial
from typing import Any

import plotly.graph_objects as go

from app.embeddings.figures.overlay import Overlay
from app.embeddings.figures.projection import PROJECTION, colours_of, in_key, numbers, points_of, shown
from app.figures.figure import Figure, plot, undefined
from isoscope.core.formatting import count

SPACE = "space"
TITLE = "First three principal components"
MOST_DRAWN = 10_000
"""Points that a browser without a graphics card turns without a pause."""
MANY = 2000
"""Of more points each is small."""
CAMERA = {"projection": {"type": "orthographic"}}
"""Without perspective, as in the plane: points that are far off are no smaller."""
LONGEST = 1.45
"""Of the axes, in units of the camera: the box with its labels fits however it is turned."""


def space(overlay: Overlay) -> Figure:
    """The points of one subject by their labels, on axes of one scale."""
    (one,) = overlay.series
    data = one.of(PROJECTION)
    if "z" not in data:
        return undefined(SPACE, TITLE, "An earlier version measured this embedding, along two components alone.")
    if not data["shares"][2]:
        return undefined(SPACE, TITLE, "These rows lie in a plane: there is no third component.")
    return Figure(
        slug=SPACE,
        title=TITLE,
        caption=f"{count(min(len(data['z']), MOST_DRAWN))} of {count(data['n'])} points drawn. The components have "
        f"{', '.join(f'{share:.1%}' for share in data['shares'])} of the variance. All axes have the same scale. "
        "Drag to turn it.",
        table=numbers(overlay, "xyz"),
        draw=partial(_draw, overlay),
    )


def _draw(overlay: Overlay) -> go.Figure:
    (one,) = overlay.series
    data = one.of(PROJECTION)
    many = len(data["z"]) > MANY
    traces = [
        go.Scatter3d(
            **shown(one, drawn, "xyz"), marker={"color": drawn.colour, "size": 2 if many else 3}, name=in_key(drawn)
        )
        for drawn in points_of(one, MOST_DRAWN, colours_of(overlay))
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
