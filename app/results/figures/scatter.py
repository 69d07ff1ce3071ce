"""Scatters of settings: any quantity by any other, in panels and colors by further ones, with error bars."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log10
from typing import Any, NamedTuple

import plotly.graph_objects as go

from app.db.run_rows import AnyRun
from app.figures import palette
from app.figures.figure import Cell, Figure, log_axis, plain, plot, thinned
from app.figures.labels import heading
from app.results.figures import legend, scatter_traces
from app.results.figures.scatter_points import (
    MOST_PANELS,
    USUAL,
    Scatter,
    ScatterPoint,
    ScatterStyle,
    is_positive,
)
from app.results.figures.scatter_traces import Mark, Ranges, Shades, interval
from app.results.points import Trivial, empty
from app.results.quantities import PERFORMANCE, Quantity, Readings, value_words
from app.results.run_set import LAM, REGULARIZER, order
from app.results.statistics.estimate import Estimate
from app.results.sweep import Sweep, cell_text
from isoscope.core.formatting import number, plural

WIDEST_STEP = 0.5
"""Of the step from one value to the next, what its points take up side by side."""
MOST_TICKS = 15
"""Of an axis at equal steps: of more values some are told by pointing alone."""
LONGEST_TICK = 24
LONGEST_TITLE = 44
MOST_COLUMNS = 4


def scatter(
    sweep: Sweep, metric: str, style: ScatterStyle = USUAL, readings: Readings | None = None, *, slug: str = "scatter"
) -> Figure:
    """Return the scatter of a style. ``metric`` names one of ``SCALES``.

    Raises InvalidError of ``x``, ``y``, ``colour`` or ``facet``.
    """
    wanted = Scatter(sweep, metric, style, readings)
    above = wanted.y.name
    left_out = wanted.left_out()
    return Figure(
        slug=slug,
        title=f"{above[0].upper() if above[0].isascii() else above[0]}{above[1:]} by {wanted.x.name}",
        caption=f"{wanted.caption()}{left_out}" if wanted.points else "",
        table=wanted.table(),
        draw=partial(_draw, wanted),
        empty=None if wanted.points else left_out.strip() or empty(sweep),
        wide=wanted.facet is not None,
    )


@dataclass(frozen=True)
class Axis:
    """An axis: values at their distances, at those of their logarithms, or one step from each other."""

    quantity: Quantity
    log: bool
    steps: Mapping[Cell, float]
    """Places of values at equal steps; empty where they keep their distances."""

    @classmethod
    def over(cls, wanted: Scatter, quantity: Quantity, scale: str, points: Sequence[ScatterPoint]) -> "Axis":
        """The axis of some points: words at equal steps, and so λ, unless a search chose it or a scale is given."""
        values = set() if quantity.measured else {point.values[quantity.key] for point in points}
        equal = quantity.key == LAM and not scale and not wanted.sweep.searched
        if equal or any(isinstance(value, str) for value in values):
            ordered = sorted(values, key=partial(order, quantity.key))
            return cls(quantity, False, {value: float(step) for step, value in enumerate(ordered)})
        return cls(quantity, scale == "log", {})

    def at(self, point: ScatterPoint) -> Estimate:
        """Where a point stands, before it is moved beside others."""
        if mean := point.means.get(self.quantity.key):
            return mean
        value = point.values[self.quantity.key]
        return Estimate(self.steps[value] if self.steps else float(value or 0), None, 1)

    def range(self, estimates: Iterable[Estimate], values: Iterable[float]) -> list[float]:
        """What it reaches from and to, in logarithms where it has these."""
        drawn = [*estimates]
        if self.steps:
            return [-0.5, len(self.steps) - 0.5]
        if self.log:
            ends = [*values, *(end for one in drawn for end in (one.mean, *one.ends))]
            return list(log_axis("", ends)["range"])
        return scatter_traces.span(drawn, values, self.quantity.within)

    def layout(self, reach: list[float]) -> dict[str, Any]:
        """The axis as plotly takes it."""
        if self.log:
            return log_axis(self.quantity.axis, [10.0**end for end in reach]) | {"range": reach}
        axis: dict[str, Any] = {"title": {"text": self.quantity.axis}, "range": reach}
        if not self.steps:
            return axis
        ticks = thinned([*self.steps.items()], MOST_TICKS)
        texts = [plain(cell_text(value), LONGEST_TICK) for value, _ in ticks]
        return axis | {"tickvals": [place for _, place in ticks], "ticktext": texts}


class Panel(NamedTuple):
    """What is drawn on one pair of axes."""

    title: str
    marks: list[Mark]
    trivial: Trivial


class Drawing(NamedTuple):
    """What panels share."""

    wanted: Scatter
    x: Axis
    y: Axis
    ranges: Ranges
    shades: Shades | None


def _draw(wanted: Scatter) -> go.Figure:
    style = wanted.style
    points = [point for point in wanted.points if _has_place(wanted, point)]
    if not points:
        return plot([])
    x = Axis.over(wanted, wanted.x, style.x_scale, points)
    y = Axis.over(wanted, wanted.y, style.y_scale, points)
    groups = _groups(wanted, points)
    of = {title: _marks(wanted, x, y, alike) for title, alike in groups.items()}
    marks = [mark for alike in of.values() for mark in alike]
    runs = [run for mark in marks for run in mark.seeds]
    reach_y = y.range((mark.y for mark in marks), (value for _, value, _ in runs if value is not None))
    trivial = {title: _trivial(wanted, alike) for title, alike in groups.items()}
    if not y.log:
        for one in trivial.values():
            reach_y = one.widened(reach_y)
    reach = Ranges(x.range((mark.x for mark in marks), (value for value, _, _ in runs if value is not None)), reach_y)
    drawing = Drawing(wanted, x, y, reach, _shades(wanted, marks))
    return _plot(drawing, [Panel(title, of[title], trivial[title]) for title in of])


def _has_place(wanted: Scatter, point: ScatterPoint) -> bool:
    style = wanted.style
    return all(
        scale != "log" or is_positive(point, one)
        for one, scale in ((wanted.x, style.x_scale), (wanted.y, style.y_scale))
    )


def _groups(wanted: Scatter, points: Sequence[ScatterPoint]) -> dict[str, list[ScatterPoint]]:
    """The points of each panel. Plain training stands in every panel whose setting means nothing to it."""
    if wanted.facet is None:
        return {"": list(points)}
    key = wanted.facet.key
    values = [None if _is_everywhere(point, key) else point.values[key] for point in points]
    known = sorted({*values} - {None}, key=partial(order, key))[:MOST_PANELS]
    return {
        plain(value_words(key, value), LONGEST_TITLE): [
            point for point, own in zip(points, values, strict=True) if own in (None, value)
        ]
        for value in known
    } or {"": list(points)}


def _is_everywhere(point: ScatterPoint, key: str) -> bool:
    return point.values[key] is None or (key == REGULARIZER and point.setting.baseline)


def _trivial(wanted: Scatter, points: Sequence[ScatterPoint]) -> Trivial:
    """The trivial predictor of a panel, which is of its own rows where panels are of several data sets."""
    if wanted.facet is None or PERFORMANCE not in (wanted.x.key, wanted.y.key):
        return wanted.trivial
    settings = {point.setting for point in points}
    return Trivial.from_runs(
        wanted.sweep, [run for run in wanted.sweep.finished if wanted.sweep.setting(run) in settings]
    )


def _marks(wanted: Scatter, x: Axis, y: Axis, points: Sequence[ScatterPoint]) -> list[Mark]:
    """Points at their places; at one of equal steps they stand side by side."""
    together: dict[float, list[ScatterPoint]] = {}
    for point in points:
        together.setdefault(x.at(point).mean if x.steps else 0.0, []).append(point)
    return [
        _mark(wanted, x, y, point, WIDEST_STEP / len(here) * (place - (len(here) - 1) / 2) if x.steps else 0.0)
        for here in together.values()
        for place, point in enumerate(here)
    ]


def _mark(wanted: Scatter, x: Axis, y: Axis, point: ScatterPoint, aside: float) -> Mark:
    across, up = x.at(point), y.at(point)
    if aside:
        across = Estimate(across.mean + aside, across.half_width, across.n)
    label = legend.whole(wanted.sweep, point.setting)

    def place(axis: Axis, own: Estimate, run: AnyRun) -> float | None:
        return wanted.value(axis.quantity, run) if axis.quantity.measured else own.mean

    runs = [
        (place(x, across, run), value := place(y, up, run), f"{label}, seed {run.seed}: {number(value, 4)}")
        for run in point.runs
    ]
    shade = point.means[wanted.shade.key] if wanted.shade else None
    return Mark(
        point.setting,
        across,
        up,
        _words(wanted, point) + wanted.trivial.describe(point.setting),
        runs if wanted.style.seeds else (),
        shade.mean if shade else None,
    )


def _words(wanted: Scatter, point: ScatterPoint) -> str:
    means = [(one.key, mean) for one in wanted.measured if (mean := point.means[one.key]) is not None]
    seeds = plural(means[0][1].n if means else len(point.runs), "seed")
    return "<br>".join([seeds, *(f"{heading(key)} {interval(mean)}" for key, mean in means)])


def _shades(wanted: Scatter, marks: Sequence[Mark]) -> Shades | None:
    if wanted.shade is None:
        return None
    known = [mark.shade for mark in marks if mark.shade is not None] or [0.0]
    return Shades(wanted.shade.axis, min(known), max(known))


def _plot(drawing: Drawing, panels: Sequence[Panel]) -> go.Figure:
    """Panels in rows of few, on one scale: each column has an axis along, each row one upward."""
    columns = min(len(panels), MOST_COLUMNS)
    rows = -(-len(panels) // columns)
    traces: list[go.Scatter] = []
    shapes: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    named: set[str] = set()
    for place, panel in enumerate(panels):
        row, column = divmod(place, columns)
        x, y = (axis + (str(number + 1) if number else "") for axis, number in (("x", column), ("y", row)))
        for trace in _panel_traces(drawing, panel, wide=columns < MOST_COLUMNS):
            again = trace.name in named and trace.showlegend
            named |= {trace.name} if trace.showlegend else set()
            traces.append(trace.update(xaxis=x, yaxis=y, **({"showlegend": False} if again else {})))
        lines, words = _panel_lines(drawing, panel)
        titled = {"text": panel.title, "xref": "paper", "x": 0, "xanchor": "left", "yref": "paper", "y": 1,
                  "yanchor": "bottom", "showarrow": False, "font": {"size": 12}}  # fmt: skip
        shapes += [_within(x, y, one) if panel.title else one for one in lines]
        notes += [_within(x, y, one) for one in [*([] if place else words), titled]] if panel.title else words
    if drawing.shades:
        steps, told = scatter_traces.bar(drawing.shades)
        shapes, notes = [*shapes, *steps], [*notes, *told]
    axes = {f"xaxis{column + 1 if column else ''}": drawing.x.layout(drawing.ranges.x) for column in range(columns)}
    axes |= {f"yaxis{row + 1 if row else ''}": drawing.y.layout(drawing.ranges.y) for row in range(rows)}
    for name, axis in axes.items():
        if columns > 2:
            axis["title"] = {"text": "" if name[0] == "y" and rows > 1 else getattr(drawing, name[0]).quantity.name}
    grid = {"rows": rows, "columns": columns, "pattern": "coupled", "xgap": 0.06, "ygap": 0.16}
    return plot(
        traces,
        showlegend=any(trace.showlegend for trace in traces),
        shapes=shapes,
        annotations=notes,
        **axes,
        **({"grid": grid} if len(panels) > 1 else {}),
        **({"margin": {"r": scatter_traces.BAR_ROOM}} if drawing.shades else {}),
    )


def _within(x: str, y: str, drawn: dict[str, Any]) -> dict[str, Any]:
    """A shape or words of a panel, beside its axes in place of those of the whole plot."""
    refs = (("xref", x), ("yref", y))
    return drawn | {ref: f"{axis} domain" if drawn.get(ref) == "paper" else axis for ref, axis in refs}


def _panel_traces(drawing: Drawing, panel: Panel, *, wide: bool) -> list[go.Scatter]:
    wanted, marks = drawing.wanted, panel.marks
    traces = scatter_traces.traces(
        wanted.colouring,
        marks,
        drawing.ranges,
        logs=(drawing.x.log, drawing.y.log),
        named=wide and LAM not in (wanted.x.key, wanted.y.key),
        shades=drawing.shades,
    )
    return [*traces, *panel.trivial.crosses([(mark.setting, mark.x.mean, mark.y.mean) for mark in marks])]


def _panel_lines(drawing: Drawing, panel: Panel) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Lines across a panel at what plain training and the trivial predictor have, and words on them."""
    level = scatter_traces.level(panel.marks)
    upright = _upright(drawing.x.steps) if drawing.x.quantity.key == LAM else []
    if drawing.wanted.y.key != PERFORMANCE or drawing.y.log:
        return [*level, *upright], []
    means = [(log10(mark.x.mean) if drawing.x.log else mark.x.mean, mark.y.mean) for mark in panel.marks]
    line = panel.trivial.line(drawing.ranges.y, across_range=drawing.ranges.x, places=means)
    return [*level, *line["shapes"], *upright], line["annotations"]


def _upright(places: Mapping[Cell, float]) -> list[dict[str, Any]]:
    """A dotted line at λ = 0, where that is among the values of λ."""
    if 0 not in places:
        return []
    style = {"width": 1, "dash": "dot", "color": palette.QUIET}
    return [{"type": "line", "x0": places[0], "x1": places[0], "yref": "paper", "y0": 0, "y1": 1, "line": style,
             "layer": "below"}]  # fmt: skip
