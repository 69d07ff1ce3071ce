"""Figures of the scores of variants, by isotropy and by bytes per vector."""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import quantiles
from typing import Any, NamedTuple

import plotly.graph_objects as go

from app.db.task import JudgedVariant, TaskResults
from app.figures import palette
from app.figures.figure import (
    Cell,
    Figure,
    FigureTable,
    escape_text,
    interval_bars,
    linear_axis,
    log_axis,
    plot,
    undefined_figure,
)
from isoscope.core.formatting import count, number, plural
from isotropy.catalog import METRICS

MAX_NAME_CHARACTERS = 48
MARKER_SIZE = 10
SMALL_MARKER_SIZE = 7
WHISKER_LENGTH = 1.5
"""In interquartile ranges. Scores further below the lower quartile are outliers (Tukey 1977)."""
SCORE_BOUNDS = (-1.0, 1.0)
"""Bounds of all metrics; a rank correlation may be negative."""
ROOM = 0.05
"""Fraction of the score axis that stays free beyond the points."""


class VariantRole(NamedTuple):
    """A variant that a figure names, and how it is drawn."""

    title: str
    color: str
    symbol: str


AS_IT_IS = VariantRole("As it is", palette.MAIN, "square")
CHOSEN = VariantRole("Chosen", palette.MARKED, "circle")
SMALLEST = VariantRole("Smallest", palette.SECOND, "diamond")


def task_figures(results: TaskResults) -> list[Figure]:
    """Return the task's score by bias-corrected IsoScore and by the bytes of a stored vector."""
    roles = {index: role for index, role in name_roles(results).items() if index != results.baseline}
    role_sentences = "".join(f" {role}: {results.variants[index].name}." for index, role in roles.items())
    drawn = [index for index, variant in enumerate(results.variants) if variant.isoscore is not None]
    n_undefined = len(results.variants) - len(drawn)
    note = f" IsoScore of {plural(n_undefined, 'variant')} is undefined." if n_undefined else ""
    front_indices, table = find_pareto_front(results), _tabulate_variants(results)
    isoscore_axis = partial(linear_axis, "IsoScore, bias-corrected (1 is isotropic)")
    by_isotropy = Figure(
        slug="isotropy",
        title="Performance by isotropy",
        caption=f"Each point is a variant. Bars are 95% intervals.{note}{_describe_below(results)}{role_sentences}",
        table=table,
        draw=partial(_draw, results, drawn, lambda variant: variant.isoscore or 0.0, isoscore_axis, ()),
    )
    if not drawn:
        by_isotropy = undefined_figure(by_isotropy.slug, by_isotropy.title, "IsoScore is undefined for these vectors.")
    rows: list[list[Cell]] = [[*row, "yes" if index in front_indices else ""] for index, row in enumerate(table.rows)]
    bytes_axis, indices = partial(log_axis, "Bytes per vector"), range(len(results.variants))
    by_size = Figure(
        slug="bytes",
        title="Performance by size",
        caption="Each point is a variant. No other beats those on the line in both size and score, on these rows."
        f"{_describe_below(results)}{role_sentences}",
        table=FigureTable([*table.columns, "on the line"], rows),
        draw=partial(_draw, results, indices, lambda variant: float(variant.bytes), bytes_axis, front_indices),
    )
    return [by_isotropy, by_size]


def name_roles(results: TaskResults) -> dict[int, str]:
    """Return the roles of the baseline, the chosen and the smallest variant by their indices."""
    titles_by_index = {results.baseline: [AS_IT_IS.title]}
    for index, role in ((results.chosen, CHOSEN), (results.smallest, SMALLEST)):
        titles_by_index.setdefault(index, []).append(role.title)
    return {index: ", ".join([titles[0], *map(str.lower, titles[1:])]) for index, titles in titles_by_index.items()}


def _find_score_range(results: TaskResults) -> tuple[float, float] | None:
    """Return the ends of the score axis if outliers lie below the intervals of the named variants, else None."""
    scores = sorted(variant.report.value for variant in results.variants)
    low, _, high = quantiles(scores, n=4, method="inclusive") if len(scores) > 1 else (scores[0],) * 3
    named_reports = [results.variants[index].report for index in (results.baseline, results.chosen, results.smallest)]
    fence = min(low - WHISKER_LENGTH * (high - low), *(report.low for report in named_reports))
    if scores[0] >= fence:
        return None
    drawn = [variant.report for variant in results.variants if variant.report.value >= fence]
    bottom, top = min(report.low for report in drawn), max(report.high for report in drawn)
    room = ROOM * (top - bottom)
    return bottom - room, top + room


def _describe_below(results: TaskResults) -> str:
    """Return a sentence that names the variants below the axis, such as binary; empty if there are none."""
    if (ends := _find_score_range(results)) is None:
        return ""
    below = [variant for variant in results.variants if variant.report.value < ends[0]]
    names = ", ".join(f"{variant.name} ({variant.report.value:.3f})" for variant in below)
    return f" Below the axis: {names}." if below else ""


def find_pareto_front(results: TaskResults) -> list[int]:
    """Return the indices of the Pareto-optimal variants by bytes and score, the smallest first."""
    best: list[int] = []
    variants = results.variants
    for index in sorted(range(len(variants)), key=lambda i: (variants[i].bytes, -variants[i].report.value)):
        if not best or variants[index].report.value > variants[best[-1]].report.value:
            best.append(index)
    return best


GetX = Callable[[JudgedVariant], float]
MakeAxis = Callable[[Sequence[float]], dict[str, Any]]


def _tabulate_variants(results: TaskResults) -> FigureTable:
    columns = [
        "variant", "role", "bytes", "IsoScore, bias-corrected", "score on the choosing part", "score", "low", "high",
        "difference", "difference low", "difference high",
    ]  # fmt: skip
    roles = name_roles(results)
    rows: list[list[Cell]] = [
        [
            variant.name,
            roles.get(index, ""),
            variant.bytes,
            variant.isoscore,
            variant.choose.value,
            *variant.report.model_dump().values(),
        ]
        for index, variant in enumerate(results.variants)
    ]
    return FigureTable(columns, rows)


def _draw(
    results: TaskResults, indices: Sequence[int], get_x: GetX, make_axis: MakeAxis, front_indices: Sequence[int]
) -> go.Figure:
    """Draw these variants by ``get_x`` and score, with a line through the Pareto front; no line if that is empty."""
    variants = results.variants
    roles_by_index = {results.baseline: AS_IT_IS, results.chosen: CHOSEN, results.smallest: SMALLEST}
    role_titles = name_roles(results)
    unmarked = [index for index in indices if index not in roles_by_index]
    traces = [_scatter(variants, unmarked, get_x, VariantRole("Others", palette.QUIET, "circle"), SMALL_MARKER_SIZE)]
    if front_indices:
        x = [get_x(variants[index]) for index in front_indices]
        y = [variants[index].report.value for index in front_indices]
        line = {"color": palette.QUIET, "dash": "dot", "shape": "hv", "width": 1.5}
        traces.append(
            go.Scatter(x=x, y=y, mode="lines", line=line, name="Best for its size", hoverinfo="skip", legendrank=2)
        )
    for index, role in roles_by_index.items():
        if index in indices:
            traces.append(_scatter(variants, [index], get_x, role._replace(title=role_titles[index]), MARKER_SIZE))
    x_values = [get_x(variants[index]) for index in indices]
    scores = [variants[index].report.value for index in indices]
    score_axis = linear_axis(METRICS[results.metric], scores, SCORE_BOUNDS)
    if (ends := _find_score_range(results)) is not None:
        score_axis["range"] = list(ends)
    return plot(traces, showlegend=True, xaxis=make_axis(x_values), yaxis=score_axis)


def _scatter(
    variants: Sequence[JudgedVariant], indices: Sequence[int], get_x: GetX, role: VariantRole, size: int
) -> go.Scatter:
    drawn = [variants[index] for index in indices]
    texts = [
        f"{escape_text(variant.name, MAX_NAME_CHARACTERS)}<br>"
        f"{variant.report.value:.3f} [{variant.report.low:.3f}, {variant.report.high:.3f}]<br>"
        f"{count(variant.bytes)} bytes, IsoScore {number(variant.isoscore)}"
        for variant in drawn
    ]
    intervals = [(variant.report.value, variant.report.low, variant.report.high) for variant in drawn]
    thickness = 1.2 if size == SMALL_MARKER_SIZE else 2
    return go.Scatter(
        x=[get_x(variant) for variant in drawn],
        y=[variant.report.value for variant in drawn],
        mode="markers",
        name=role.title,
        legendrank=1000 if size == SMALL_MARKER_SIZE else 1,
        marker={"color": role.color, "symbol": role.symbol, "size": size},
        error_y=interval_bars(intervals, color=role.color, thickness=thickness),
        text=texts,
        hovertemplate="%{text}<extra></extra>",
    )
