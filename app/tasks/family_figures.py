"""Isotropy against performance: embeddings judged by one task, as they are and with their chosen variants."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, repeat
from typing import NamedTuple

import plotly.graph_objects as go

from app.context import Context
from app.db.task import JudgedVariant
from app.embeddings.family import FamilyMember, read_family
from app.figures import palette
from app.figures.figure import Cell, Figure, FigureTable, escape_text, interval_bars, linear_axis, plot
from app.figures.labels import LabeledPoint, place_labels, shorten_names
from app.tasks.cutoff_figures import cutoff_figures
from app.tasks.figures import task_figures
from app.tasks.service import get_results, get_task
from isoscope.core.formatting import number, plural
from isotropy.catalog import METRICS

SLUG, TITLE = "embeddings", "Isotropy against performance"
MAX_NAME_CHARACTERS = 40
AXIS_MARGIN = 0.08
"""Fraction of an axis left free around the points."""


class VariantStyle(NamedTuple):
    """How a variant is drawn: its name in the table and in the legend of layers, its symbol and its line."""

    name: str
    layers_title: str
    symbol: str
    dash: str


AS_IT_IS = VariantStyle("as it is", "Layers as they are", "square", "solid")
CHOSEN = VariantStyle("chosen", "Layers with the chosen variant", "circle", "dot")
MIN_EMBEDDINGS = 2
"""Judged embeddings needed for this figure. The task's own figures show a single one."""
COLUMNS = [
    "embedding", "layer", "variant", "name", "IsoScore, bias-corrected", "score", "low", "high", "units reported",
]  # fmt: skip


def list_task_figures(context: Context, task_id: str) -> list[Figure]:
    """Return the figures of a finished task: its family's, if it has one, then those of its variants."""
    results = get_results(context, task_id)
    figure = family_figure(read_family(context, get_task(context, task_id).family_key), results.metric)
    return [*([figure] if figure else []), *task_figures(results), *cutoff_figures(results.calibration)]


def family_figure(members: Sequence[FamilyMember], metric: str) -> Figure | None:
    """Return the figure of isotropy and performance; None if fewer than ``MIN_EMBEDDINGS`` were judged."""
    judged = [member for member in members if member.as_it_is is not None]
    if len(judged) < MIN_EMBEDDINGS:
        return None
    drawn = [member for member in judged if member.as_it_is is not None and member.as_it_is.isoscore is not None]
    n_undefined = len(judged) - len(drawn)
    line_note = " Lines join layers in order, numbered where there is room." if _group_layers(drawn) else ""
    undefined_note = f" IsoScore of {plural(n_undefined, 'embedding')} is undefined." if n_undefined else ""
    symbol_note = "Squares: vectors as they are. Circles: the chosen variant."
    caption = f"{symbol_note}{line_note} Bars are 95% intervals.{undefined_note}"
    rows: list[list[Cell]] = []
    for member in judged:
        for style, variant in _list_variants(member):
            report = variant.report
            scores: list[Cell] = [variant.isoscore, report.value, report.low, report.high]
            rows.append([member.name, member.layer, style.name, variant.name, *scores, member.report])
    return Figure(SLUG, TITLE, caption, FigureTable(COLUMNS, rows), partial(_draw, drawn, metric))


def _list_variants(member: FamilyMember) -> Iterator[tuple[VariantStyle, JudgedVariant]]:
    """Yield the vectors as they are, and the chosen variant if it differs."""
    if member.as_it_is is not None:
        yield AS_IT_IS, member.as_it_is
    if member.chosen is not None and member.chosen != member.as_it_is:
        yield CHOSEN, member.chosen


def _group_layers(members: Sequence[FamilyMember]) -> dict[str, list[FamilyMember]]:
    """Return the layers that each line joins, by series. A single layer has no line."""
    layers_by_series: dict[str, list[FamilyMember]] = {}
    for member in members:
        if member.series is not None:
            layers_by_series.setdefault(member.series, []).append(member)
    return {series: layers for series, layers in layers_by_series.items() if len(layers) > 1}


def _draw(members: Sequence[FamilyMember], metric: str) -> go.Figure:
    drawn = [variant for member in members for _, variant in _list_variants(member) if variant.isoscore is not None]
    isoscore_range = _widen_range([variant.isoscore or 0.0 for variant in drawn])
    score_range = _widen_range([end for variant in drawn for end in (variant.report.low, variant.report.high)])
    lines = []
    for style in (AS_IT_IS, CHOSEN):
        for layers in _group_layers(members).values():
            variants = [dict(_list_variants(layer)).get(style, layer.as_it_is) for layer in layers]
            line = go.Scatter(
                x=[variant.isoscore for variant in variants if variant is not None],
                y=[variant.report.value for variant in variants if variant is not None],
                mode="lines",
                line={"color": palette.QUIET, "width": 1.5, "dash": style.dash},
                hoverinfo="skip",
                showlegend=False,
            )
            lines.append(line)
    return plot(
        [*lines, *_draw_members(members, isoscore_range, score_range)],
        showlegend=True,
        xaxis={**linear_axis("IsoScore, bias-corrected (1 is isotropic)", []), "range": isoscore_range},
        yaxis={**linear_axis(METRICS[metric], []), "range": score_range},
    )


def _widen_range(values: Sequence[float]) -> list[float]:
    """Return the range of an axis with room around the points."""
    low, high = min(values), max(values)
    room = AXIS_MARGIN * (high - low) or AXIS_MARGIN
    return [low - room, high + room]


def _draw_members(
    members: Sequence[FamilyMember], x_range: Sequence[float], y_range: Sequence[float]
) -> Iterator[go.Scatter]:
    """Yield the points of each embedding in its own color. Layers are numbered; others are in the legend."""
    layer_colors = {
        layer.task_id: palette.ordered_color(position / (len(layers) - 1))
        for layers in _group_layers(members).values()
        for position, layer in enumerate(layers)
    }
    single_members = [member for member in members if member.task_id not in layer_colors]
    series_colors = chain(palette.SERIES, repeat(palette.QUIET))
    colors = layer_colors | {
        member.task_id: color for member, color in zip(single_members, series_colors, strict=False)
    }
    names = shorten_names([member.name for member in members], MAX_NAME_CHARACTERS)
    # The number of each layer and its text position, if there is room.
    layer_members = [member for member in members if member.task_id in layer_colors]
    labeled_points = [
        LabeledPoint(member.as_it_is.isoscore or 0.0, member.as_it_is.report.value, 0, 0, str(member.layer))
        for member in layer_members
        if member.as_it_is is not None
    ]
    layer_texts = {
        member.task_id: (str(member.layer), position)
        for member, position in zip(layer_members, place_labels(labeled_points, x_range, y_range), strict=True)
        if position is not None
    }
    for member, name in zip(members, names, strict=True):
        text, text_position = layer_texts.get(member.task_id, ("", "top right"))
        name_text, in_legend = escape_text(name, MAX_NAME_CHARACTERS), member.task_id not in layer_colors
        yield _scatter(member, name_text, colors[member.task_id], text, text_position, in_legend=in_legend)
    if layer_colors:
        for style in (AS_IT_IS, CHOSEN):
            marker = {"color": palette.QUIET, "symbol": style.symbol, "size": 9}
            yield go.Scatter(x=[None], y=[None], mode="markers", name=style.layers_title, marker=marker)


def _scatter(member: FamilyMember, name: str, color: str, text: str, position: str, *, in_legend: bool) -> go.Scatter:
    """Return the points of an embedding, first as it is, with their intervals."""
    variants = [(style, variant) for style, variant in _list_variants(member) if variant.isoscore is not None]
    reports = [variant.report for _, variant in variants]
    hover_texts = []
    for style, variant in variants:
        report = variant.report
        title = style.name if style is AS_IT_IS else f"{style.name}: {escape_text(variant.name, MAX_NAME_CHARACTERS)}"
        scores = f"{report.value:.3f} [{report.low:.3f}, {report.high:.3f}], IsoScore {number(variant.isoscore)}"
        hover_texts.append(f"{name}<br>{title}<br>{scores}")
    return go.Scatter(
        x=[variant.isoscore for _, variant in variants],
        y=[report.value for report in reports],
        mode="markers+text",
        name=name,
        showlegend=in_legend,
        marker={"color": color, "symbol": [style.symbol for style, _ in variants], "size": 9},
        error_y=interval_bars(
            ((report.value, report.low, report.high) for report in reports), color=color, thickness=0.8
        ),
        text=[text, ""][: len(variants)],  # the chosen variant has no text
        textposition=position,
        hovertext=hover_texts,
        hovertemplate="%{hovertext}<extra></extra>",
    )
