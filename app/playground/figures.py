"""The figures of the playground: the cloud, the shift, and the sample-size example."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlencode

import plotly.graph_objects as go
from fastapi import Depends, Query

from app.embeddings.figures.overlay import Subject
from app.embeddings.figures.report import draw_figures
from app.embeddings.figures.sample_size import SAMPLE_SIZE
from app.figures import palette
from app.figures.figure import Cell, Figure, FigureTable, plot, vertical_line
from app.playground.clouds import MEASURES, SHAPES, SHIFTS, Position, generate_cloud, get_measures, snap_to_grid
from isoscope.core.formatting import count, number, plural

FILE = Path(__file__).with_name("gaussian_example.json")
# Name and color of each line, the same colors as for the mean and the points in space.
SHIFT_LINES = {"mean_cosine": ("Mean cosine", palette.MARKED), "isoscore": ("IsoScore", palette.MAIN)}
# Room for the names of lines, in pixels.
NAME_MARGIN = 100
AXES = ("x", "y", "z")
# Ranges of the axes, the same for every cloud, so that shifts are visible.
RANGES = ((-4.0, 10.6), (-3.3, 3.3), (-3.3, 3.3))
DECIMALS = 4
Points = Sequence[Sequence[float]]
Span = tuple[float, float]
# Horizontal and vertical domain of the panel of each pair of axes.
PANELS: dict[tuple[int, int], tuple[Span, Span]] = {
    (0, 2): ((0.0, 0.64), (0.56, 1.0)),
    (1, 2): ((0.72, 1.0), (0.56, 1.0)),
    (0, 1): ((0.0, 0.64), (0.0, 0.44)),
}
# Length of the first axis, in units of the camera.
FIRST_AXIS_LENGTH = 1.8
CAMERA = {"eye": {"x": 0.75, "y": -1.75, "z": 0.6}, "center": {"x": 0, "y": 0, "z": -0.12}}
# While this stays the same, plotly leaves the camera where the reader turned it.
UI_REVISION = "by the reader"
ZERO_LINE = palette.with_opacity(palette.QUIET, 0.6)

PlaygroundView = Literal["space", "flat"]

# Initial position of the page. This and the first preset are examples from the I-STAR poster.
INITIAL_POSITION = Position("gaussian", 1.0, 7.0, 512)


@cache
def gaussian_example() -> Figure:
    """Return the sample-size figure of a Gaussian sample, with the score of its distribution."""
    data = json.loads(FILE.read_text(encoding="utf-8"))
    (figure,) = draw_figures([Subject("Gaussian, d = 768", {}, {SAMPLE_SIZE: data})])
    true_score = data["truth"]
    caption = f"{figure.caption} Long dashes: the score of the distribution, {number(true_score)}."
    line = go.Scatter(
        x=[data["rows"][0], data["n"]],
        y=[true_score, true_score],
        mode="lines",
        line={"color": palette.QUIET, "width": 1.6, "dash": "longdash"},
        name="truth",
        hovertemplate="the distribution: %{y:.3f}<extra></extra>",
    )
    return replace(figure, caption=caption, draw=lambda: figure.draw().add_trace(line))


def shift_figure(position: Position) -> Figure:
    """Return mean cosine and IsoScore by shift with the current one marked; the table has all measures."""
    measures_by_shift = {shift: get_measures(position._replace(shift=shift)) for shift in SHIFTS}
    rows: list[list[Cell]] = [[shift, *measures.values()] for shift, measures in measures_by_shift.items()]
    return Figure(
        slug="shift",
        title="What the shift does",
        caption=(
            f"The same {count(position.n)} points, moved away from the origin. The mean cosine follows their mean; "
            "IsoScore does not see it. Marked: the position of the slider."
        ),
        table=FigureTable(["shift", *MEASURES], rows),
        draw=partial(_draw_shift, measures_by_shift, position.shift),
    )


def _draw_shift(measures_by_shift: Mapping[float, Mapping[str, float]], shift: float) -> go.Figure:
    current, last = measures_by_shift[shift], measures_by_shift[SHIFTS[-1]]
    upper_slug = max(SHIFT_LINES, key=lambda slug: current[slug])
    last_upper_slug = max(SHIFT_LINES, key=lambda slug: last[slug])
    traces = []
    for slug, (name, color) in SHIFT_LINES.items():
        line = go.Scatter(
            x=SHIFTS,
            y=[measures[slug] for measures in measures_by_shift.values()],
            mode="lines+text",
            line={"color": color, "width": 2.4},
            text=[*[""] * (len(SHIFTS) - 1), f"  {name}"],
            textposition=f"{'top' if slug == last_upper_slug else 'bottom'} right",
            cliponaxis=False,
            hovertemplate=f"{name}<br>shift %{{x}}: %{{y:.3f}}<extra></extra>",
        )
        # The mean cosine rises, so there is room above it on the left and below it on the right, except at the names.
        lower_position = "bottom left" if shift == SHIFTS[-1] else "bottom right"
        mark = go.Scatter(
            x=[shift],
            y=[current[slug]],
            mode="markers+text",
            marker={"color": color, "size": 11},
            text=[number(current[slug])],
            textposition="top left" if slug == upper_slug else lower_position,
            hoverinfo="skip",
        )
        traces += [line, mark]
    return plot(
        traces,
        shapes=[vertical_line(shift, {"width": 1, "dash": "dot", "color": palette.QUIET})],
        xaxis={"title": {"text": "Shift: distance of the mean from the origin"}, "range": [-0.7, 7.2],
               "tickvals": SHIFTS},
        yaxis={"range": [-0.3, 1.2], "tickvals": [0, 0.2, 0.4, 0.6, 0.8, 1]},
        margin={"r": NAME_MARGIN},
    )  # fmt: skip


def cloud_figure(position: Position, *, flat: bool = False) -> Figure:
    """Return the points of a position, drawn in space unless ``flat``."""
    points = generate_cloud(*position).round(DECIMALS).tolist()
    centered = generate_cloud(*position._replace(shift=0.0)).round(DECIMALS).tolist() if position.shift else []
    gray_note = " Gray: the same cloud, centered." if centered else ""
    turn_note = "" if flat else " Drag to turn it."
    return Figure(
        slug="cloud",
        title=f"{SHAPES[position.shape].name}, {plural(position.n, 'point')}",
        caption=(
            f"The colored line connects the origin to the mean of the points.{gray_note} The unit is the root "
            f"mean square distance of the points from their mean.{turn_note}"
        ),
        table=FigureTable(list(AXES), points),
        draw=partial(_draw_panels if flat else _draw_space, points, centered, position.shift),
    )


def _draw_space(points: Points, centered: Points, shift: float) -> go.Figure:
    longest = max(high - low for low, high in RANGES)
    scene: dict[str, Any] = {
        "aspectmode": "manual",
        "aspectratio": {
            name: FIRST_AXIS_LENGTH * (high - low) / longest for name, (low, high) in zip(AXES, RANGES, strict=True)
        },
        "camera": CAMERA,
        "dragmode": "turntable",
    }
    for name, span in zip(AXES, RANGES, strict=True):
        scene[f"{name}axis"] = {
            "title": {"text": name}, "range": span, "dtick": 2, "showbackground": False, "showspikes": False,
        }  # fmt: skip
    mean_line = go.Scatter3d(
        x=[0, shift], y=[0, 0], z=[0, 0],
        mode="lines+markers",
        line={"color": palette.MARKED, "width": 6},
        marker={"color": palette.MARKED, "size": [6, 4], "opacity": 1, "symbol": ["cross", "circle"]},
        hoverinfo="skip",
    )  # fmt: skip
    # Lines along the axes, since points may hide the origin.
    ends: list[list[float | None]] = []
    for axis, span in enumerate(RANGES):
        ends += [[end if axis == coordinate else 0 for coordinate in range(len(RANGES))] for end in span]
        ends.append([None] * len(RANGES))
    x, y, z = zip(*ends, strict=True)
    top_index = z.index(RANGES[2][1])
    axis_lines = go.Scatter3d(
        x=x, y=y, z=z,
        mode="lines+text",
        line={"color": palette.QUIET, "width": 2},
        text=["origin" if i == top_index else "" for i in range(len(ends))],
        textposition="top center",
        hoverinfo="skip",
    )  # fmt: skip
    traces = [axis_lines, _draw_3d(centered, palette.QUIET), _draw_3d(points, palette.MAIN), mean_line]
    return plot(traces, scene=scene, uirevision=UI_REVISION, margin={"l": 0, "r": 0, "t": 0, "b": 0})


def _draw_3d(points: Points, color: str) -> go.Scatter3d:
    return go.Scatter3d(
        x=[point[0] for point in points],
        y=[point[1] for point in points],
        z=[point[2] for point in points],
        mode="markers",
        marker={"size": _marker_size(len(points)), "color": color, "line": {"width": 0}},
        hovertemplate="(%{x:.2f}, %{y:.2f}, %{z:.2f})<extra></extra>",
    )


def _draw_panels(points: Points, centered: Points, shift: float) -> go.Figure:
    traces: list[go.Scatter] = []
    layout: dict[str, Any] = {}
    shared = {"dtick": 2, "zeroline": True, "zerolinecolor": ZERO_LINE, "constrain": "domain"}
    for panel, (plane, domains) in enumerate(PANELS.items(), 1):
        x_axis, y_axis = (
            shared | {"title": {"text": AXES[axis]}, "range": RANGES[axis], "domain": domain, "anchor": anchor}
            for axis, domain, anchor in zip(plane, domains, (f"y{panel}", f"x{panel}"), strict=True)
        )
        layout |= {f"xaxis{panel}": x_axis, f"yaxis{panel}": y_axis | {"scaleanchor": f"x{panel}"}}
        mean_line = go.Scatter(
            **_project([(0, 0, 0), (shift, 0, 0)], plane),
            mode="lines+markers",
            line={"color": palette.MARKED, "width": 2.4},
            marker={"color": palette.MARKED, "size": [10, 7], "opacity": 1, "symbol": ["cross", "circle"]},
            hoverinfo="skip",
        )
        panel_traces = (_draw_2d(centered, plane, palette.QUIET), _draw_2d(points, plane, palette.MAIN), mean_line)
        traces += [trace.update(xaxis=f"x{panel}", yaxis=f"y{panel}") for trace in panel_traces]
    return plot(traces, **layout)


def _draw_2d(points: Points, plane: tuple[int, int], color: str) -> go.Scatter:
    return go.Scatter(
        **_project(points, plane),
        mode="markers",
        marker={"size": _marker_size(len(points)), "color": color},
        hovertemplate="(%{x:.2f}, %{y:.2f})<extra></extra>",
    )


def _project(points: Points, plane: tuple[int, int]) -> dict[str, list[float]]:
    x, y = plane
    return {"x": [point[x] for point in points], "y": [point[y] for point in points]}


def _marker_size(n_points: int) -> float:
    if n_points > 1000:
        return 2.5
    return 3.5 if n_points > 100 else 6


class PlaygroundQuery(NamedTuple):
    """Query of the page: a position of the sliders, and whether the cloud is drawn in space."""

    position: Position
    view: PlaygroundView

    def to_query_string(self) -> str:
        shape, spread, shift, n = self.position
        parameters = {"shape": shape, "spread": f"{spread:g}", "shift": f"{shift:g}", "n": n}
        return urlencode(parameters if self.view == "space" else parameters | {"view": self.view})

    def changed_query(self, **values: Any) -> str:
        return self._replace(**values).to_query_string()


def playground_figures(query: PlaygroundQuery) -> list[Figure]:
    return [cloud_figure(query.position, flat=query.view == "flat"), shift_figure(query.position), gaussian_example()]


def _read_query(
    shape: str = INITIAL_POSITION.shape,
    spread: Annotated[float, Query(allow_inf_nan=False)] = INITIAL_POSITION.spread,
    shift: Annotated[float, Query(allow_inf_nan=False)] = INITIAL_POSITION.shift,
    n: int = INITIAL_POSITION.n,
    view: PlaygroundView = "space",
) -> PlaygroundQuery:
    return PlaygroundQuery(snap_to_grid(Position(shape, spread, shift, n)), view)


PlaygroundDep = Annotated[PlaygroundQuery, Depends(_read_query)]
