"""Draw a cloud along its first three principal components, in 3-D."""

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
"""Maximum number of points: a browser without a graphics card still turns them smoothly."""
MANY = 2000
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
