"""Scatters of settings: any quantity by any other, with colors and panels by further ones, and error bars.

There are as many traces as colors, not as points: a thousand runs are drawn as fast as ten.
"""

from collections.abc import Collection, Sequence
from functools import partial
from math import ceil, inf
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from app.figures import palette
from app.figures.figure import Figure, Trace, escape_text, pick_evenly, plot, vertical_line
from app.figures.labels import LabeledPoint, heading, place_labels
from app.results.captions import explain_empty
from app.results.figures import legend
from app.results.figures.legend import LAMBDA, MAX_ENTRIES, Coloring
from app.results.figures.scatter_axis import ScatterAxis
from app.results.figures.scatter_points import (
    DEFAULT_STYLE,
    MAX_PANELS,
    ScatterPlan,
    ScatterPoint,
    ScatterStyle,
    panel_title,
)
from app.results.figures.trivial import TrivialPredictor
from app.results.run_table import LAM, PERFORMANCE, REGULARIZER, Family, RunTable, Setting, sort_key
from app.results.statistics.estimate import Estimate
from isoscope.core.formatting import number, plural, short, with_error

# Points at the same step stand side by side on this fraction of the step.
STEP_WIDTH = 0.5
MAX_TITLE_LENGTH = 44
MAX_COLUMNS = 4
# Maximum number of named points. With more, only plain training is named.
MAX_NAMED = 24
MEAN_SIZE, RING_SIZE, RUN_SIZE = 11, 19, 6
# Number of colors in the scale of a measured quantity, which plotly interpolates, and in the color bar.
SCALE_COLORS, BAR_COLORS = 11, 33
# Left and right edge of the color bar, as fractions of the plot's width.
BAR_EDGES = (1.02, 1.035)
# Width of the color bar with its numbers, in pixels.
BAR_MARGIN = 92
RING_MARKER = {"symbol": "circle-open", "size": RING_SIZE, "color": palette.QUIET, "line": {"width": 1.5}}
QUIET_LINE = {"width": 1, "dash": "dot", "color": palette.QUIET}
NO_LEGEND_NO_HOVER = {"showlegend": False, "hoverinfo": "skip"}


class RunMark(NamedTuple):
    """A single run at its position, with its hover text."""

    x: float | None
    y: float | None
    hover_text: str


def scatter(
    table: RunTable,
    metric: str,
    style: ScatterStyle = DEFAULT_STYLE,
    *,
    slug: str = "scatter",
    collapsed: Collection[Setting] = (),
) -> Figure:
    """Return the scatter of a style. ``metric`` is that of performance. ``collapsed`` settings are drawn hollow.

    Raise InvalidError for ``x``, ``y``, ``color`` or ``facet`` of the style.
    """
    plan = ScatterPlan(table, metric, style, collapsed)
    y_name = plan.y.name
    left_out_note = plan.describe_left_out()
    return Figure(
        slug=slug,
        # Greek letters stay lowercase.
        title=f"{y_name[0].upper() if y_name[0].isascii() else y_name[0]}{y_name[1:]} by {plan.x.name}",
        caption=plan.caption() + left_out_note if plan.points else "",
        table=plan.table(),
        draw=partial(_draw, plan),
        empty=None if plan.points else left_out_note.strip() or explain_empty(table),
        wide=plan.facet is not None,
    )


class Mark(NamedTuple):
    """A point at its position, with its hover text."""

    setting: Setting
    x: Estimate
    y: Estimate
    hover_text: str
    runs: Sequence[RunMark] = ()
    color_value: float | None = None
    """The mean of the quantity that colors show; None if it is undefined, or if colors show a field of settings."""


class Panel(NamedTuple):
    """The marks and the trivial predictor of one panel."""

    title: str
    marks: list[Mark]
    trivial_predictor: TrivialPredictor


class SharedAxes(NamedTuple):
    """The plan of a scatter, and the axes, limits and color range that its panels share."""

    plan: ScatterPlan
    x: ScatterAxis
    y: ScatterAxis
    x_limits: list[float]
    y_limits: list[float]
    color_range: tuple[float, float] | None
    """Smallest and largest value of the quantity that colors show; None if they show a field of settings."""


def _draw(plan: ScatterPlan) -> go.Figure:
    points = [
        point
        for point in plan.points
        if all(scale != "log" or point.fits_log_axis(quantity) for quantity, scale in plan.scales)
    ]
    if not points:
        return plot([])
    x, y = (ScatterAxis.build(plan, quantity, scale, points) for quantity, scale in plan.scales)
    panels = []
    for title, panel_points in _group_by_panel(plan, points).items():
        trivial_predictor = plan.trivial_predictor
        if plan.facet is not None and PERFORMANCE in (plan.x.key, plan.y.key):
            settings = {point.setting for point in panel_points}
            runs = [run for run in plan.run_table.finished_runs if plan.run_table.setting(run) in settings]
            trivial_predictor = TrivialPredictor.from_runs(plan.run_table, runs)
        points_by_step: dict[float, list[ScatterPoint]] = {}
        for point in panel_points:
            points_by_step.setdefault(x.position(point).mean if x.steps else 0.0, []).append(point)
        panel_marks = []
        for step_points in points_by_step.values():
            spacing = STEP_WIDTH / len(step_points) if x.steps else 0.0
            for index, point in enumerate(step_points):
                x_offset = spacing * (index - (len(step_points) - 1) / 2)
                panel_marks.append(_make_mark(plan, x, y, point, x_offset))
        panels.append(Panel(title, panel_marks, trivial_predictor))
    marks = [mark for panel in panels for mark in panel.marks]
    run_marks = [run_mark for mark in marks for run_mark in mark.runs]
    y_limits = y.limits([mark.y for mark in marks], (run_mark.y for run_mark in run_marks))
    if not y.log:
        for panel in panels:
            y_limits = panel.trivial_predictor.widen(y_limits)
    x_limits = x.limits([mark.x for mark in marks], (run_mark.x for run_mark in run_marks))
    color_range = None
    if plan.color_quantity:
        color_values = [mark.color_value for mark in marks if mark.color_value is not None] or [0.0]
        color_range = min(color_values), max(color_values)
    return _draw_panels(SharedAxes(plan, x, y, x_limits, y_limits, color_range), panels)


def _group_by_panel(plan: ScatterPlan, points: Sequence[ScatterPoint]) -> dict[str, list[ScatterPoint]]:
    """Group points by panel title, "" if there is no facet. A setting without a value of the facet is in all panels."""
    if plan.facet is None:
        return {"": list(points)}
    key = plan.facet.key
    values = [None if key == REGULARIZER and point.setting.is_baseline else point.values[key] for point in points]
    panel_values = sorted({*values} - {None}, key=partial(sort_key, key))[:MAX_PANELS]
    points_by_title = {
        escape_text(panel_title(key, panel_value), MAX_TITLE_LENGTH): [
            point for point, value in zip(points, values, strict=True) if value in (None, panel_value)
        ]
        for panel_value in panel_values
    }
    return points_by_title or {"": list(points)}


def _make_mark(plan: ScatterPlan, x: ScatterAxis, y: ScatterAxis, point: ScatterPoint, x_offset: float) -> Mark:
    x_mean, y_mean = x.position(point), y.position(point)
    if x_offset:
        x_mean = Estimate(x_mean.mean + x_offset, x_mean.half_width, x_mean.n)
    label = legend.hover_label(plan.run_table, point.setting)
    runs = point.runs if plan.style.seeds else []
    x_values, y_values = (
        [plan.run_table.readings(axis.quantity.key)[run].value if axis.quantity.measured else mean.mean for run in runs]
        for axis, mean in ((x, x_mean), (y, y_mean))
    )
    hover_texts = [f"{label}, seed {run.seed}: {number(value, 4)}" for run, value in zip(runs, y_values, strict=True)]
    run_marks = [*map(RunMark, x_values, y_values, hover_texts)]
    means = [(key, mean) for key, mean in point.means.items() if mean is not None]
    lines = [
        label,
        plural(means[0][1].n if means else len(point.runs), "seed"),
        *(f"{heading(key)} {with_error(mean.mean, mean.half_width)}" for key, mean in means),
    ]
    hover_text = "<br>".join(lines) + plan.trivial_predictor.describe(point.setting)
    color_mean = point.means[plan.color_quantity.key] if plan.color_quantity else None
    return Mark(point.setting, x_mean, y_mean, hover_text, run_marks, color_mean.mean if color_mean else None)


def _draw_panels(axes: SharedAxes, panels: Sequence[Panel]) -> go.Figure:
    n_columns = min(len(panels), MAX_COLUMNS)
    n_rows = ceil(len(panels) / n_columns)
    traces: list[Trace] = []
    shapes: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    legend_names: set[str] = set()
    for index, panel in enumerate(panels):
        row, column = divmod(index, n_columns)
        x, y = f"x{column + 1 if column else ''}", f"y{row + 1 if row else ''}"  # plotly's names: x, x2, x3, ...
        for trace in _panel_traces(axes, panel, wide=n_columns < MAX_COLUMNS):
            if trace["showlegend"]:
                trace["showlegend"] = trace["name"] not in legend_names and len(legend_names) < MAX_ENTRIES
                legend_names.add(trace["name"])
            traces.append(trace | {"xaxis": x, "yaxis": y})
        lines = _panel_lines(axes, panel, in_legend=index == 0)
        if not panel.title:
            shapes += lines
            continue
        title = {"text": panel.title, "xref": "paper", "x": 0, "xanchor": "left", "yref": "paper", "y": 1,
                 "yanchor": "bottom", "showarrow": False, "font": {"size": 12}}  # fmt: skip
        shapes += [_move_to_panel(x, y, line) for line in lines]
        annotations.append(_move_to_panel(x, y, title))
    if axes.color_range and axes.plan.color_quantity:
        bar_shapes, bar_labels = _color_bar(axes.plan.color_quantity.axis_title, axes.color_range)
        shapes += bar_shapes
        annotations += bar_labels
    layouts = {f"xaxis{n + 1 if n else ''}": axes.x.layout(axes.x_limits) for n in range(n_columns)}
    layouts |= {f"yaxis{n + 1 if n else ''}": axes.y.layout(axes.y_limits) for n in range(n_rows)}
    if n_columns > 2:  # there is no room for full titles
        for name, layout in layouts.items():
            quantity = axes.x.quantity if name[0] == "x" else axes.y.quantity
            layout["title"] = {"text": "" if name[0] == "y" and n_rows > 1 else quantity.name}
    grid = {"rows": n_rows, "columns": n_columns, "pattern": "coupled", "xgap": 0.06, "ygap": 0.16}
    return plot(
        traces,
        showlegend=any(trace["showlegend"] for trace in traces) or any(shape.get("showlegend") for shape in shapes),
        shapes=shapes,
        annotations=annotations,
        **layouts,
        **({"grid": grid} if len(panels) > 1 else {}),
        **({"margin": {"r": BAR_MARGIN}} if axes.color_range else {}),
    )


def _move_to_panel(x: str, y: str, item: dict[str, Any]) -> dict[str, Any]:
    """Return a shape or an annotation of the whole plot for the panel with the axes ``x`` and ``y``."""
    references = (("xref", x), ("yref", y))
    return item | {key: f"{axis} domain" if item.get(key) == "paper" else axis for key, axis in references}


def _panel_lines(axes: SharedAxes, panel: Panel, *, in_legend: bool) -> list[dict[str, Any]]:
    """Return lines through the only baseline, at the trivial predictor's score, and at λ = 0, if the panel has them."""
    lines: list[dict[str, Any]] = []
    baselines = [mark for mark in panel.marks if mark.setting.is_baseline]
    if len(baselines) == 1 and len(panel.marks) > 1:
        y = baselines[0].y.mean
        lines.append({"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": QUIET_LINE,
                      "layer": "below"})  # fmt: skip
    if axes.plan.y.key == PERFORMANCE and not axes.y.log:
        lines += panel.trivial_predictor.line_shapes(axes.y_limits, in_legend=in_legend)
    if axes.x.quantity.key == LAM and 0 in axes.x.steps:
        lines.append(vertical_line(axes.x.steps[0], QUIET_LINE))
    return lines


def _panel_traces(axes: SharedAxes, panel: Panel, *, wide: bool) -> list[Trace]:
    """Return the traces of a panel, from back to front.

    These are lines by family, runs, rings around plain training, means, names, a legend and crosses. In a ``wide``
    panel, names show the λ of means if there is room, unless an axis shows it.
    """
    plan, marks, coloring = axes.plan, panel.marks, axes.plan.coloring
    has_lambda_axis = LAM in (plan.x.key, plan.y.key)
    name_traces = _name_traces(axes, marks) if wide and not has_lambda_axis else []
    n_named = sum(len(trace["x"]) for trace in name_traces)
    omits_lambda = axes.color_range is not None or has_lambda_axis or n_named == len(marks)
    marks_by_color: dict[str, list[Mark]] = {}
    for mark in marks:
        color = palette.QUIET if axes.color_range else coloring.color(mark.setting)
        marks_by_color.setdefault(color, []).append(mark)
    scaled_marks = [mark for mark in marks if mark.color_value is not None]
    unscaled_by_color = {
        color: [mark for mark in group if mark.color_value is None] for color, group in marks_by_color.items()
    }
    baselines = [mark for mark in marks if mark.setting.is_baseline]
    runs_by_color = {color: [run for mark in group for run in mark.runs] for color, group in marks_by_color.items()}
    return [
        *_family_lines(coloring, marks),
        *(
            Trace(
                x=np.array([run.x for run in runs], dtype=float),
                y=np.array([run.y for run in runs], dtype=float),
                mode="markers",
                marker={"color": color, "size": RUN_SIZE, "symbol": "circle-open"},
                showlegend=False,
                hovertext=np.array([run.hover_text for run in runs]),
                hoverinfo="text",
            )
            for color, runs in runs_by_color.items()
            if runs
        ),
        *([_marker_trace(baselines, RING_MARKER)] if baselines else []),
        *(_mean_trace(group, color, plan) for color, group in unscaled_by_color.items() if group),
        *([_color_scale_trace(scaled_marks, axes.color_range, plan)] if axes.color_range and scaled_marks else []),
        *name_traces,
        *_legend_traces(coloring, marks, omits_lambda=omits_lambda),
        *panel.trivial_predictor.without_crosses(plan.collapsed).cross_traces(
            [(mark.setting, mark.x.mean, mark.y.mean) for mark in marks]
        ),
    ]


def _marker_trace(marks: Sequence[Mark], marker: dict[str, Any], **properties: Any) -> Trace:
    return Trace(
        x=[mark.x.mean for mark in marks],
        y=[mark.y.mean for mark in marks],
        marker=marker,
        **{"mode": "markers", **NO_LEGEND_NO_HOVER, **properties},
    )


def _family_lines(coloring: Coloring, marks: Sequence[Mark]) -> list[Trace]:
    """Return a trace for each color, with a line through the means of each family and its baseline in order of λ."""
    table = coloring.table
    baselines = [mark for mark in marks if mark.setting.is_baseline]
    marks_by_family: dict[Family, list[Mark]] = {}
    for mark in marks:
        marks_by_family.setdefault(mark.setting.family, []).append(mark)
    positions_by_color: dict[str, list[tuple[float | None, float | None]]] = {}
    for family in table.families:
        members = marks_by_family.get(family, [])
        shared_baselines = [mark for mark in baselines if mark not in members and table.belongs(mark.setting, family)]
        line_marks = sorted([*members, *shared_baselines], key=lambda mark: mark.setting.lam)
        positions = positions_by_color.setdefault(coloring.family_color(family), [])
        positions += [*((mark.x.mean, mark.y.mean) for mark in line_marks), (None, None)]  # then a gap
    return [
        Trace(
            x=[x for x, _ in positions[:-1]],
            y=[y for _, y in positions[:-1]],
            mode="lines",
            line={"color": color, "width": 0.8},
            **NO_LEGEND_NO_HOVER,
        )
        for color, positions in positions_by_color.items()
    ]


def _mean_trace(marks: Sequence[Mark], color: str, plan: ScatterPlan) -> Trace:
    symbols = [
        legend.symbol(plan.run_table, mark.setting.family) + ("-open" if mark.setting in plan.collapsed else "")
        for mark in marks
    ]
    return _marker_trace(
        marks,
        {"color": color, "size": MEAN_SIZE, "symbol": symbols},
        error_x=error_bar(*(mark.x for mark in marks), bounds=plan.x.bounds),
        error_y=error_bar(*(mark.y for mark in marks), bounds=plan.y.bounds),
        hovertext=[mark.hover_text for mark in marks],
        hoverinfo="text",
    )


def _color_scale_trace(marks: Sequence[Mark], color_range: tuple[float, float], plan: ScatterPlan) -> Trace:
    fractions = [index / (SCALE_COLORS - 1) for index in range(SCALE_COLORS)]
    trace = _mean_trace(marks, palette.QUIET, plan)
    trace["marker"].update(
        color=[mark.color_value for mark in marks],
        cmin=color_range[0],
        cmax=color_range[1],
        colorscale=[[fraction, palette.ordered_color(fraction)] for fraction in fractions],
    )
    for bars in (trace["error_x"], trace["error_y"]):
        bars["color"] = palette.QUIET
    return trace


def _name_traces(axes: SharedAxes, marks: Sequence[Mark]) -> list[Trace]:
    """Return a trace that writes the λ of means beside them where there is room; an empty list if there is none."""
    candidates = sorted(marks, key=lambda mark: not mark.setting.is_baseline)
    if len(marks) > MAX_NAMED:
        candidates = [mark for mark in candidates if mark.setting.is_baseline][:1]
    points = []
    for mark in candidates:
        (x, x_reach), (y, y_reach) = axes.x.drawn_extent(mark.x), axes.y.drawn_extent(mark.y)
        points.append(LabeledPoint(x, y, x_reach, y_reach, f"λ = {short(mark.setting.lam)}"))
    corners = place_labels(points, axes.x_limits, axes.y_limits)
    labeled_marks = [
        (mark, point.name, corner) for mark, point, corner in zip(candidates, points, corners, strict=True) if corner
    ]
    if not labeled_marks:
        return []
    return [
        _marker_trace(
            [mark for mark, _, _ in labeled_marks],
            {"color": "rgba(0, 0, 0, 0)", "size": MEAN_SIZE},
            mode="markers+text",
            text=[name for _, name, _ in labeled_marks],
            textposition=[corner for _, _, corner in labeled_marks],
        )
    ]


def _legend_traces(coloring: Coloring, marks: Sequence[Mark], *, omits_lambda: bool) -> list[Trace]:
    """Return a trace for each legend entry: families, or colors. There are no colors of λ if ``omits_lambda``."""
    table = coloring.table
    if 1 < len(table.families) <= MAX_ENTRIES:
        names = legend.legend_names(table, table.families, table.family_label)
        entries = [
            (name, coloring.family_color(family), legend.symbol(table, family))
            for name, family in zip(names, table.families, strict=True)
        ]
    elif omits_lambda and coloring.key == LAMBDA:
        return []
    else:
        colors = [*{coloring.label(mark.setting): coloring.color(mark.setting) for mark in marks}.items()]
        listed_colors = colors[:MAX_ENTRIES] if coloring.key in table.fields else pick_evenly(colors, MAX_ENTRIES)
        entries = [(escape_text(label, legend.MAX_NAME_LENGTH), color, "circle") for label, color in listed_colors]
    return [
        Trace(x=[None], y=[None], mode="markers", name=name, showlegend=True,
              marker={"color": color, "symbol": symbol, "size": 9})
        for name, color, symbol in entries
    ]  # fmt: skip


def _color_bar(title: str, color_range: tuple[float, float]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the bar that explains the colors of a measured quantity, as shapes and annotations beside the plot."""
    # Plotly's own bar sets style attributes, which the pages' policy forbids. Rectangles overlap to leave no gaps.
    rectangles = [
        {"type": "rect", "xref": "paper", "yref": "paper", "x0": BAR_EDGES[0], "x1": BAR_EDGES[1],
         "y0": index / BAR_COLORS, "y1": min((index + 1.5) / BAR_COLORS, 1), "line": {"width": 0},
         "fillcolor": palette.ordered_color(index / (BAR_COLORS - 1))}
        for index in range(BAR_COLORS)
    ]  # fmt: skip
    low, high = color_range
    text = {"xref": "paper", "yref": "paper", "showarrow": False, "xanchor": "left", "font": {"size": 12}}
    numbers = [
        text | {"x": BAR_EDGES[1], "y": y, "yanchor": anchor, "text": number(low + y * (high - low), 2)}
        for y, anchor in ((0, "bottom"), (0.5, "middle"), (1, "top"))
    ]
    rotated = text | {"x": BAR_EDGES[1], "xshift": 44, "y": 0.5, "yanchor": "middle", "textangle": 90, "text": title}
    return rectangles, [*numbers, rotated]


def error_bar(*estimates: Estimate, bounds: tuple[float, float] = (-inf, inf)) -> dict[str, Any]:
    """Return plotly's error bars of estimates, cut at the bounds of their quantity."""
    low, high = bounds
    above = [estimate.half_width and min(estimate.half_width, high - estimate.mean) for estimate in estimates]
    below = [estimate.half_width and min(estimate.half_width, estimate.mean - low) for estimate in estimates]
    visible = any(width is not None for width in above)
    return {"array": above, "arrayminus": below, "symmetric": False, "visible": visible, "thickness": 1.2, "width": 4}
