"""Scatters of settings: any quantity by any other, with colors and panels by further ones, and error bars.

There are as many traces as colors, not as points: a thousand runs are drawn as fast as ten.
"""

from collections.abc import Collection, Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple

import plotly.graph_objects as go

from app.figures import palette
from app.figures.figure import Figure, escape_text, pick_evenly, plot, vertical_line
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
# Colors in the scale of a measured quantity, which plotly interpolates, and steps of the bar beside it.
SHADES, BAR_STEPS = 11, 33
BAR_EDGES = (1.02, 1.035)
# Width of the bar with its numbers, in pixels.
BAR_MARGIN = 92
RING_MARKER = {"symbol": "circle-open", "size": RING_SIZE, "color": palette.QUIET, "line": {"width": 1.5}}
QUIET_LINE = {"width": 1, "dash": "dot", "color": palette.QUIET}
NO_LEGEND = {"showlegend": False, "hoverinfo": "skip"}


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
    """Return the scatter of a style. ``metric`` names one of ``METRIC_RANGES``. ``collapsed`` settings are hollow.

    Raise InvalidError for ``x``, ``y``, ``color`` or ``facet``.
    """
    plan = ScatterPlan(table, metric, style, collapsed)
    name = plan.y.name
    left_out = plan.describe_left_out()
    return Figure(
        slug=slug,
        title=f"{name[0].upper() if name[0].isascii() else name[0]}{name[1:]} by {plan.x.name}",
        caption=f"{plan.caption()}{left_out}" if plan.points else "",
        table=plan.table(),
        draw=partial(_draw, plan),
        empty=None if plan.points else left_out.strip() or explain_empty(table),
        wide=plan.facet is not None,
    )


class Mark(NamedTuple):
    """A point at its position, with its hover text."""

    setting: Setting
    x: Estimate
    y: Estimate
    hover_text: str
    runs: Sequence[RunMark] = ()
    shade: float | None = None
    """The value of its color if that is measured."""


class Panel(NamedTuple):
    """The marks and the trivial predictor on one pair of axes."""

    title: str
    marks: list[Mark]
    trivial_predictor: TrivialPredictor


class ScatterPlot(NamedTuple):
    """The axes, limits and color range that all panels of a scatter share."""

    plan: ScatterPlan
    x: ScatterAxis
    y: ScatterAxis
    x_limits: list[float]
    y_limits: list[float]
    shades: tuple[float, float] | None
    """Smallest and largest value of the color if that is measured."""


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
    for title, group in _group_by_panel(plan, points).items():
        trivial_predictor = plan.trivial_predictor
        if plan.facet is not None and PERFORMANCE in (plan.x.key, plan.y.key):
            settings = {point.setting for point in group}
            runs = [run for run in plan.run_table.finished_runs if plan.run_table.setting(run) in settings]
            trivial_predictor = TrivialPredictor.from_runs(plan.run_table, runs)
        points_by_step: dict[float, list[ScatterPoint]] = {}
        for point in group:
            points_by_step.setdefault(x.position(point).mean if x.steps else 0.0, []).append(point)
        panel_marks = []
        for step_points in points_by_step.values():
            spacing = STEP_WIDTH / len(step_points) if x.steps else 0.0
            for index, point in enumerate(step_points):
                offset = spacing * (index - (len(step_points) - 1) / 2)
                panel_marks.append(_make_mark(plan, x, y, point, offset))
        panels.append(Panel(title, panel_marks, trivial_predictor))
    marks = [mark for panel in panels for mark in panel.marks]
    run_marks = [run_mark for mark in marks for run_mark in mark.runs]
    y_limits = y.limits([mark.y for mark in marks], (run_mark.y for run_mark in run_marks))
    if not y.log:
        for panel in panels:
            y_limits = panel.trivial_predictor.widen(y_limits)
    x_limits = x.limits([mark.x for mark in marks], (run_mark.x for run_mark in run_marks))
    shades = [mark.shade for mark in marks if mark.shade is not None] or [0.0]
    return _draw_panels(
        ScatterPlot(plan, x, y, x_limits, y_limits, (min(shades), max(shades)) if plan.shade else None), panels
    )


def _group_by_panel(plan: ScatterPlan, points: Sequence[ScatterPoint]) -> dict[str, list[ScatterPoint]]:
    """Group points by panel title. A setting on which the panels' field has no effect is in every panel."""
    if plan.facet is None:
        return {"": list(points)}
    key = plan.facet.key
    values = [None if key == REGULARIZER and point.setting.is_baseline else point.values[key] for point in points]
    panels = sorted({*values} - {None}, key=partial(sort_key, key))[:MAX_PANELS]
    return {
        escape_text(panel_title(key, panel), MAX_TITLE_LENGTH): [
            point for point, value in zip(points, values, strict=True) if value in (None, panel)
        ]
        for panel in panels
    } or {"": list(points)}


def _make_mark(plan: ScatterPlan, x: ScatterAxis, y: ScatterAxis, point: ScatterPoint, offset: float) -> Mark:
    x_mean, y_mean = x.position(point), y.position(point)
    if offset:
        x_mean = Estimate(x_mean.mean + offset, x_mean.half_width, x_mean.n)
    label = legend.hover_label(plan.run_table, point.setting)
    runs: list[RunMark] = []
    for run in point.runs if plan.style.seeds else ():
        x_value, y_value = (
            plan.run_table.readings(axis.quantity.key)[run].value if axis.quantity.measured else mean.mean
            for axis, mean in ((x, x_mean), (y, y_mean))
        )
        runs.append(RunMark(x_value, y_value, f"{label}, seed {run.seed}: {number(y_value, 4)}"))
    means = [(quantity.key, mean) for quantity in plan.measured if (mean := point.means[quantity.key]) is not None]
    lines = [
        label,
        plural(means[0][1].n if means else len(point.runs), "seed"),
        *(f"{heading(key)} {with_error(mean.mean, mean.half_width)}" for key, mean in means),
    ]
    hover_text = "<br>".join(lines) + plan.trivial_predictor.describe(point.setting)
    shade = point.means[plan.shade.key] if plan.shade else None
    return Mark(point.setting, x_mean, y_mean, hover_text, runs, shade.mean if shade else None)


def _draw_panels(drawing: ScatterPlot, panels: Sequence[Panel]) -> go.Figure:
    columns = min(len(panels), MAX_COLUMNS)
    rows = -(-len(panels) // columns)
    traces: list[go.Scatter] = []
    shapes: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    legend_names: set[str] = set()
    for index, panel in enumerate(panels):
        row, column = divmod(index, columns)
        x, y = f"x{column + 1 if column else ''}", f"y{row + 1 if row else ''}"
        for trace in _panel_traces(drawing, panel, wide=columns < MAX_COLUMNS):
            repeated = trace.name in legend_names and trace.showlegend
            legend_names |= {trace.name} if trace.showlegend else set()
            traces.append(trace.update(xaxis=x, yaxis=y, **({"showlegend": False} if repeated else {})))
        lines = _panel_lines(drawing, panel, in_legend=index == 0)
        if not panel.title:
            shapes += lines
            continue
        title = {"text": panel.title, "xref": "paper", "x": 0, "xanchor": "left", "yref": "paper", "y": 1,
                 "yanchor": "bottom", "showarrow": False, "font": {"size": 12}}  # fmt: skip
        shapes += [_move_to_panel(x, y, line) for line in lines]
        annotations.append(_move_to_panel(x, y, title))
    if drawing.shades and drawing.plan.shade:
        steps, labels = _color_bar(drawing.plan.shade.axis, drawing.shades)
        shapes, annotations = [*shapes, *steps], [*annotations, *labels]
    axes = {f"xaxis{n + 1 if n else ''}": drawing.x.layout(drawing.x_limits) for n in range(columns)}
    axes |= {f"yaxis{n + 1 if n else ''}": drawing.y.layout(drawing.y_limits) for n in range(rows)}
    if columns > 2:
        for name, axis in axes.items():
            quantity = drawing.x.quantity if name[0] == "x" else drawing.y.quantity
            axis["title"] = {"text": "" if name[0] == "y" and rows > 1 else quantity.name}
    grid = {"rows": rows, "columns": columns, "pattern": "coupled", "xgap": 0.06, "ygap": 0.16}
    return plot(
        traces,
        showlegend=any(trace.showlegend for trace in traces) or any(shape.get("showlegend") for shape in shapes),
        shapes=shapes,
        annotations=annotations,
        **axes,
        **({"grid": grid} if len(panels) > 1 else {}),
        **({"margin": {"r": BAR_MARGIN}} if drawing.shades else {}),
    )


def _move_to_panel(x: str, y: str, item: dict[str, Any]) -> dict[str, Any]:
    references = (("xref", x), ("yref", y))
    return item | {key: f"{axis} domain" if item.get(key) == "paper" else axis for key, axis in references}


def _panel_lines(drawing: ScatterPlot, panel: Panel, *, in_legend: bool) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    baselines = [mark for mark in panel.marks if mark.setting.is_baseline]
    if len(baselines) == 1 and len(panel.marks) > 1:
        y = baselines[0].y.mean
        lines.append({"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": QUIET_LINE,
                      "layer": "below"})  # fmt: skip
    if drawing.plan.y.key == PERFORMANCE and not drawing.y.log:
        lines += panel.trivial_predictor.line_shapes(drawing.y_limits, in_legend=in_legend)
    if drawing.x.quantity.key == LAM and 0 in drawing.x.steps:
        lines.append(vertical_line(drawing.x.steps[0], QUIET_LINE))
    return lines


def _panel_traces(drawing: ScatterPlot, panel: Panel, *, wide: bool) -> list[go.Scatter]:
    """Return the traces of a panel, from back to front.

    These are lines by family, runs, a ring around plain training, means, names, a legend and crosses. In a ``wide``
    panel, names show the λ of means if there is room, unless an axis shows it.
    """
    plan, marks, coloring = drawing.plan, panel.marks, drawing.plan.coloring
    has_names = wide and LAM not in (plan.x.key, plan.y.key)
    names = _name_traces(drawing, marks) if has_names else []
    lambda_is_visible = (
        drawing.shades is not None or not has_names or sum(len(trace.x) for trace in names) == len(marks)
    )
    marks_by_color: dict[str, list[Mark]] = {}
    for mark in marks:
        color = palette.QUIET if drawing.shades else coloring.color(mark.setting)
        marks_by_color.setdefault(color, []).append(mark)
    shaded = [mark for mark in marks if mark.shade is not None]
    unshaded = {palette.QUIET: [mark for mark in marks if mark.shade is None]} if shaded else marks_by_color
    baselines = [mark for mark in marks if mark.setting.is_baseline]
    runs_by_color = {color: [run for mark in group for run in mark.runs] for color, group in marks_by_color.items()}
    return [
        *_family_lines(coloring, marks),
        *(
            go.Scatter(
                x=[run.x for run in runs],
                y=[run.y for run in runs],
                mode="markers",
                marker={"color": color, "size": RUN_SIZE, "symbol": "circle-open"},
                showlegend=False,
                hovertext=[run.hover_text for run in runs],
                hoverinfo="text",
            )
            for color, runs in runs_by_color.items()
            if runs
        ),
        *([_marker_trace(baselines, RING_MARKER)] if baselines else []),
        *(_mean_trace(group, color, plan) for color, group in unshaded.items() if group),
        *([_shaded_trace(shaded, drawing.shades, plan)] if drawing.shades and shaded else []),
        *names,
        *_legend_traces(coloring, marks, lambda_is_visible=lambda_is_visible),
        *panel.trivial_predictor.without_crosses(plan.collapsed).cross_traces(
            [(mark.setting, mark.x.mean, mark.y.mean) for mark in marks]
        ),
    ]


def _marker_trace(marks: Sequence[Mark], marker: dict[str, Any], **properties: Any) -> go.Scatter:
    return go.Scatter(
        x=[mark.x.mean for mark in marks],
        y=[mark.y.mean for mark in marks],
        marker=marker,
        **{"mode": "markers", **NO_LEGEND, **properties},
    )


def _family_lines(coloring: Coloring, marks: Sequence[Mark]) -> list[go.Scatter]:
    table = coloring.table
    baselines = [mark for mark in marks if mark.setting.is_baseline]
    marks_by_family: dict[Family, list[Mark]] = {}
    for mark in marks:
        marks_by_family.setdefault(mark.setting.family, []).append(mark)
    positions_by_color: dict[str, list[tuple[float | None, float | None]]] = {}
    for family in table.families:
        members = marks_by_family.get(family, [])
        shared_baselines = [mark for mark in baselines if mark not in members and table.belongs(mark.setting, family)]
        line = sorted([*members, *shared_baselines], key=lambda mark: mark.setting.lam)
        positions_by_color.setdefault(coloring.family_color(family), []).extend(
            [*((mark.x.mean, mark.y.mean) for mark in line), (None, None)]
        )
    return [
        go.Scatter(
            x=[x for x, _ in line[:-1]],
            y=[y for _, y in line[:-1]],
            mode="lines",
            line={"color": color, "width": 0.8},
            **NO_LEGEND,
        )
        for color, line in positions_by_color.items()
    ]


def _mean_trace(marks: Sequence[Mark], color: str, plan: ScatterPlan) -> go.Scatter:
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


def _shaded_trace(marks: Sequence[Mark], value_range: tuple[float, float], plan: ScatterPlan) -> go.Scatter:
    steps = [step / (SHADES - 1) for step in range(SHADES)]
    trace = _mean_trace(marks, palette.QUIET, plan)
    trace.marker.update(
        color=[mark.shade for mark in marks],
        cmin=value_range[0],
        cmax=value_range[1],
        colorscale=[[step, palette.ordered_color(step)] for step in steps],
    )
    for bars in (trace.error_x, trace.error_y):
        bars.color = palette.QUIET
    return trace


def _name_traces(drawing: ScatterPlot, marks: Sequence[Mark]) -> list[go.Scatter]:
    ordered = sorted(marks, key=lambda mark: not mark.setting.is_baseline)
    if len(marks) > MAX_NAMED:
        ordered = [mark for mark in ordered if mark.setting.is_baseline][:1]
    points = []
    for mark in ordered:
        (x, x_reach), (y, y_reach) = drawing.x.drawn_extent(mark.x), drawing.y.drawn_extent(mark.y)
        points.append(LabeledPoint(x, y, x_reach, y_reach, f"λ = {short(mark.setting.lam)}"))
    corners = place_labels(points, drawing.x_limits, drawing.y_limits)
    placed = [
        (mark, point.name, corner) for mark, point, corner in zip(ordered, points, corners, strict=True) if corner
    ]
    if not placed:
        return []
    return [
        _marker_trace(
            [mark for mark, _, _ in placed],
            {"color": "rgba(0, 0, 0, 0)", "size": MEAN_SIZE},
            mode="markers+text",
            text=[name for _, name, _ in placed],
            textposition=[corner for _, _, corner in placed],
        )
    ]


def _legend_traces(coloring: Coloring, marks: Sequence[Mark], *, lambda_is_visible: bool) -> list[go.Scatter]:
    table = coloring.table
    if 1 < len(table.families) <= MAX_ENTRIES:
        names = legend.legend_names(table, table.families, table.family_label)
        entries = [
            (name, coloring.family_color(family), legend.symbol(table, family))
            for name, family in zip(names, table.families, strict=True)
        ]
    elif lambda_is_visible and coloring.key == LAMBDA:
        return []
    else:
        colors = [*{coloring.label(mark.setting): coloring.color(mark.setting) for mark in marks}.items()]
        visible = colors[:MAX_ENTRIES] if coloring.key in table.fields else pick_evenly(colors, MAX_ENTRIES)
        entries = [(escape_text(label, legend.MAX_NAME_LENGTH), color, "circle") for label, color in visible]
    return [
        go.Scatter(x=[None], y=[None], mode="markers", name=name, showlegend=True,
                   marker={"color": color, "symbol": symbol, "size": 9})
        for name, color, symbol in entries
    ]  # fmt: skip


def _color_bar(title: str, value_range: tuple[float, float]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the bar that explains the colors of a measured quantity, as shapes and annotations beside the plot.

    Plotly's own bar sets style attributes, which the pages' policy forbids.
    """
    steps = [
        {"type": "rect", "xref": "paper", "yref": "paper", "x0": BAR_EDGES[0], "x1": BAR_EDGES[1],
         "y0": step / BAR_STEPS, "y1": min((step + 1.5) / BAR_STEPS, 1), "line": {"width": 0},
         "fillcolor": palette.ordered_color(step / (BAR_STEPS - 1))}
        for step in range(BAR_STEPS)
    ]  # fmt: skip
    low, high = value_range
    text = {"xref": "paper", "yref": "paper", "showarrow": False, "xanchor": "left", "font": {"size": 12}}
    numbers = [
        text | {"x": BAR_EDGES[1], "y": y, "yanchor": anchor, "text": number(low + y * (high - low), 2)}
        for y, anchor in ((0, "bottom"), (0.5, "middle"), (1, "top"))
    ]
    rotated = text | {"x": BAR_EDGES[1], "xshift": 44, "y": 0.5, "yanchor": "middle", "textangle": 90, "text": title}
    return steps, [*numbers, rotated]


def error_bar(*estimates: Estimate, bounds: tuple[float, float] = (-inf, inf)) -> dict[str, Any]:
    """Return error bars that end at the bounds of their quantity."""
    low, high = bounds
    above = [estimate.half_width and min(estimate.half_width, high - estimate.mean) for estimate in estimates]
    below = [estimate.half_width and min(estimate.half_width, estimate.mean - low) for estimate in estimates]
    visible = any(width is not None for width in above)
    return {"array": above, "arrayminus": below, "symmetric": False, "visible": visible, "thickness": 1.2, "width": 4}
