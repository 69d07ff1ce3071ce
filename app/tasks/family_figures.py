"""Isotropy against performance: embeddings judged by one task, as they are and with their chosen variants."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import plotly.graph_objects as go

from app.context import Context
from app.db.task import JudgedVariant
from app.figures import palette
from app.figures.figure import Cell, Figure, FigureTable, linear_axis, plain, plot
from app.figures.labels import LabeledPoint, positions, short_names
from app.tasks.family import Member, read_family
from app.tasks.figures import task_figures
from app.tasks.service import get_results, get_task
from isoscope.core.formatting import number, plural
from isotropy.catalog import METRICS

SLUG, TITLE = "embeddings", "Isotropy against performance"
LONGEST_NAME = 40
ROOM = 0.08
"""Of each axis, beyond the points."""


class Kind(NamedTuple):
    """What of an embedding is drawn: its name in the table and of layers in the legend, its symbol, its line."""

    name: str
    of_layers: str
    symbol: str
    dash: str


AS_IT_IS = Kind("as it is", "Layers as they are", "square", "solid")
CHOSEN = Kind("chosen", "Layers with the chosen variant", "circle", "dot")
FEWEST = 2
"""Embeddings that have been judged; one alone is in the figures of its variants."""
COLUMNS = [
    "embedding", "layer", "variant", "name", "IsoScore, bias-corrected", "score", "low", "high", "units reported",
]  # fmt: skip


def figures_of(context: Context, task_id: str) -> list[Figure]:
    """Return the figures of a task that has finished: of its family where it has one, then of its own variants."""
    results = get_results(context, task_id)
    figure = family_figure(read_family(context, get_task(context, task_id)), results.metric)
    return [*([figure] if figure else []), *task_figures(results)]


def family_figure(members: Sequence[Member], metric: str) -> Figure | None:
    """Return the figure of a family; None where fewer than two embeddings have been judged."""
    judged = [one for one in members if one.as_it_is is not None]
    if len(judged) < FEWEST:
        return None
    drawn = [one for one in judged if one.as_it_is is not None and one.as_it_is.isoscore is not None]
    left_out = len(judged) - len(drawn)
    lines = " Lines join layers in order, numbered where there is room." if _layers(drawn) else ""
    note = f" IsoScore of {plural(left_out, 'embedding')} is undefined." if left_out else ""
    caption = f"Squares: vectors as they are. Circles: the chosen variant.{lines} Bars are 95% intervals.{note}"
    rows = [row for one in judged for row in _rows(one)]
    return Figure(SLUG, TITLE, caption, FigureTable(COLUMNS, rows), partial(_draw, drawn, metric))


def _rows(one: Member) -> Iterator[list[Cell]]:
    for kind, variant in _variants(one):
        report = variant.report
        scores: list[Cell] = [variant.isoscore, report.value, report.low, report.high]
        yield [one.name, one.layer, kind.name, variant.name, *scores, one.report]


def _variants(one: Member) -> Iterator[tuple[Kind, JudgedVariant]]:
    """Yield the vectors as they are, and the chosen variant where it is another."""
    if one.as_it_is is not None:
        yield AS_IT_IS, one.as_it_is
    if one.chosen is not None and one.chosen != one.as_it_is:
        yield CHOSEN, one.chosen


def _layers(members: Sequence[Member]) -> dict[str, list[Member]]:
    """Return the layers that a line joins, by what they have in common."""
    found: dict[str, list[Member]] = {}
    for one in members:
        if one.series is not None:
            found.setdefault(one.series, []).append(one)
    return {series: layers for series, layers in found.items() if len(layers) > 1}


def _draw(members: Sequence[Member], metric: str) -> go.Figure:
    points = [variant for one in members for _, variant in _variants(one) if variant.isoscore is not None]
    across = _range([one.isoscore or 0.0 for one in points])
    up = _range([end for one in points for end in (one.report.low, one.report.high)])
    return plot(
        [*_lines(members), *_points(members, across, up)],
        showlegend=True,
        xaxis={**linear_axis("IsoScore, bias-corrected (1 is isotropic)", []), "range": across},
        yaxis={**linear_axis(METRICS[metric], []), "range": up},
    )


def _range(values: Sequence[float]) -> list[float]:
    """Return the ends of an axis with room about the points."""
    low, high = min(values), max(values)
    room = ROOM * (high - low) or ROOM
    return [low - room, high + room]


def _lines(members: Sequence[Member]) -> Iterator[go.Scatter]:
    """Yield lines through the layers of each series, as they are and chosen."""
    for kind in (AS_IT_IS, CHOSEN):
        for layers in _layers(members).values():
            variants = [dict(_variants(one)).get(kind, one.as_it_is) for one in layers]
            yield go.Scatter(
                x=[one.isoscore for one in variants if one is not None],
                y=[one.report.value for one in variants if one is not None],
                mode="lines",
                line={"color": palette.QUIET, "width": 1.5, "dash": kind.dash},
                hoverinfo="skip",
                showlegend=False,
            )


def _points(members: Sequence[Member], across: Sequence[float], up: Sequence[float]) -> Iterator[go.Scatter]:
    """Yield the points of each embedding in a color of its own; layers have numbers, others a place in the legend."""
    layers = _layers(members)
    places = {one.task_id: place / (len(series) - 1) for series in layers.values() for place, one in enumerate(series)}
    others = [one for one in members if one.task_id not in places]
    colours = {
        one.task_id: palette.SERIES[place] if place < len(palette.SERIES) else palette.QUIET
        for place, one in enumerate(others)
    }
    colours |= {task_id: palette.in_order(share) for task_id, share in places.items()}
    names = short_names([one.name for one in members], LONGEST_NAME)
    texts = _numbers([one for one in members if one.task_id in places], across, up)
    for one, name in zip(members, names, strict=True):
        in_line = one.task_id in places
        text, where = texts.get(one.task_id, ("", "top right"))
        yield _trace(one, plain(name, LONGEST_NAME), colours[one.task_id], text, where, in_legend=not in_line)
    if layers:
        for kind in (AS_IT_IS, CHOSEN):
            marker = {"color": palette.QUIET, "symbol": kind.symbol, "size": 9}
            yield go.Scatter(x=[None], y=[None], mode="markers", name=kind.of_layers, marker=marker)


def _numbers(members: Sequence[Member], across: Sequence[float], up: Sequence[float]) -> dict[str, tuple[str, str]]:
    """Return the number of each layer and where it stands, of those that have room."""
    named = [
        LabeledPoint(one.as_it_is.isoscore or 0.0, one.as_it_is.report.value, 0, 0, str(one.layer))
        for one in members
        if one.as_it_is is not None
    ]
    found = positions(named, across, up)
    return {
        one.task_id: (str(one.layer), where) for one, where in zip(members, found, strict=True) if where is not None
    }


def _trace(one: Member, name: str, colour: str, text: str, where: str, *, in_legend: bool) -> go.Scatter:
    """Return the points of an embedding, first as it is, with their intervals."""
    variants = [(kind, variant) for kind, variant in _variants(one) if variant.isoscore is not None]
    reports = [variant.report for _, variant in variants]
    return go.Scatter(
        x=[variant.isoscore for _, variant in variants],
        y=[report.value for report in reports],
        mode="markers+text",
        name=name,
        showlegend=in_legend,
        marker={"color": colour, "symbol": [kind.symbol for kind, _ in variants], "size": 9},
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [report.high - report.value for report in reports],
            "arrayminus": [report.value - report.low for report in reports],
            "color": colour,
            "thickness": 0.8,
            "width": 0,
        },
        text=[text, ""][: len(variants)],
        textposition=where,
        hovertext=[_words(name, kind, variant) for kind, variant in variants],
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _words(name: str, kind: Kind, variant: JudgedVariant) -> str:
    report = variant.report
    called = kind.name if kind is AS_IT_IS else f"{kind.name}: {plain(variant.name, LONGEST_NAME)}"
    scores = f"{report.value:.3f} [{report.low:.3f}, {report.high:.3f}], IsoScore {number(variant.isoscore)}"
    return f"{name}<br>{called}<br>{scores}"
