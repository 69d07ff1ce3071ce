"""What variants score: by isotropy, and by the bytes of a stored vector."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import plotly.graph_objects as go

from app.db.task import JudgedVariant, TaskResults
from app.figures import palette
from app.figures.figure import Cell, Figure, FigureTable, linear_axis, log_axis, plain, plot, undefined
from isoscope.core.formatting import count, number, plural
from isotropy.catalog import METRICS

LONGEST_NAME = 48
SIZE = 10
SMALL = 7


class Role(NamedTuple):
    """A variant that a figure names, and how it is drawn."""

    title: str
    colour: str
    symbol: str


AS_IT_IS = Role("As it is", palette.MAIN, "square")
CHOSEN = Role("Chosen", palette.MARKED, "circle")
SMALLEST = Role("Smallest", palette.SECOND, "diamond")


def task_figures(results: TaskResults) -> list[Figure]:
    """Return the figures of a task that has finished."""
    return [record(results) for record in RECORDS]


def roles_of(results: TaskResults) -> dict[int, str]:
    """Return what is said of the variants that a task names, by their places."""
    named = {results.baseline: [AS_IT_IS.title]}
    for place, role in ((results.chosen, CHOSEN), (results.smallest, SMALLEST)):
        named.setdefault(place, []).append(role.title)
    return {place: ", ".join([titles[0], *map(str.lower, titles[1:])]) for place, titles in named.items()}


def _named(results: TaskResults) -> str:
    """Return which variants are marked: "Chosen: Centering. Smallest: PCA-192 int8."."""
    others = {place: role for place, role in roles_of(results).items() if place != results.baseline}
    return "".join(f" {role}: {results.variants[place].name}." for place, role in others.items())


def pareto(results: TaskResults) -> list[int]:
    """Return the places of the variants that no other beats in bytes and score at once, the smallest first."""
    best: list[int] = []
    variants = results.variants
    for place in sorted(range(len(variants)), key=lambda i: (variants[i].bytes, -variants[i].report.value)):
        if not best or variants[place].report.value > variants[best[-1]].report.value:
            best.append(place)
    return best


def isotropy_of_variants(results: TaskResults) -> Figure:
    """The task's score by bias-corrected IsoScore, a point for each variant."""
    slug, title = "isotropy", "Performance by isotropy"
    drawn = [place for place, one in enumerate(results.variants) if one.isoscore is not None]
    if not drawn:
        return undefined(slug, title, "IsoScore is undefined for these vectors.")
    left_out = len(results.variants) - len(drawn)
    note = f" IsoScore of {plural(left_out, 'variant')} is undefined." if left_out else ""
    return Figure(
        slug=slug,
        title=title,
        caption=f"Each point is a variant. Bars are 95% intervals.{note} Pale variants are not corrected for choosing."
        f"{_named(results)}",
        table=_table(results),
        draw=partial(_draw, results, drawn, lambda one: one.isoscore or 0.0, _isotropy_axis, ()),
    )


def bytes_of_variants(results: TaskResults) -> Figure:
    """The task's score by the bytes of a stored vector, with the variants that nothing beats on a line."""
    front = pareto(results)
    table = _table(results)
    rows: list[list[Cell]] = [[*row, "yes" if place in front else ""] for place, row in enumerate(table.rows)]
    return Figure(
        slug="bytes",
        title="Performance by size",
        caption="Each point is a variant. No other beats those on the line in both size and score, on these rows."
        f"{_named(results)}",
        table=FigureTable([*table.columns, "on the line"], rows),
        draw=partial(_draw, results, range(len(results.variants)), lambda one: float(one.bytes), _bytes_axis, front),
    )


RECORDS: tuple[Callable[[TaskResults], Figure], ...] = (isotropy_of_variants, bytes_of_variants)

Across = Callable[[JudgedVariant], float]
Axis = Callable[[Sequence[float]], dict[str, Any]]


def _isotropy_axis(values: Sequence[float]) -> dict[str, Any]:
    return linear_axis("IsoScore, bias-corrected (1 is isotropic)", values)


def _bytes_axis(values: Sequence[float]) -> dict[str, Any]:
    return log_axis("Bytes per vector", values)


def _table(results: TaskResults) -> FigureTable:
    columns = [
        "variant", "role", "bytes", "IsoScore, bias-corrected", "choose", "report", "low", "high",
        "difference", "difference low", "difference high",
    ]  # fmt: skip
    roles = roles_of(results)
    rows: list[list[Cell]] = [
        [one.name, roles.get(place, ""), one.bytes, one.isoscore, one.choose.value, *one.report.model_dump().values()]
        for place, one in enumerate(results.variants)
    ]
    return FigureTable(columns, rows)


def _draw(results: TaskResults, places: Sequence[int], across: Across, axis: Axis, front: Sequence[int]) -> go.Figure:
    variants = results.variants
    named = {results.baseline: AS_IT_IS, results.chosen: CHOSEN, results.smallest: SMALLEST}
    roles = roles_of(results)
    others = [place for place in places if place not in named]
    traces = [_points(variants, others, across, Role("Others", palette.QUIET, "circle"), SMALL)]
    if front:
        x, y = ([take(variants[place]) for place in front] for take in (across, lambda one: one.report.value))
        line = {"color": palette.QUIET, "dash": "dot", "shape": "hv", "width": 1.5}
        traces.append(
            go.Scatter(x=x, y=y, mode="lines", line=line, name="Best for its size", hoverinfo="skip", legendrank=2)
        )
    for place, role in named.items():
        if place in places:
            traces.append(_points(variants, [place], across, role._replace(title=roles[place]), SIZE))
    known = [across(variants[place]) for place in places]
    return plot(
        traces,
        showlegend=True,
        xaxis=axis(known),
        yaxis=linear_axis(METRICS[results.metric], [variants[place].report.value for place in places]),
    )


def _points(
    variants: Sequence[JudgedVariant], places: Sequence[int], across: Across, role: Role, size: int
) -> go.Scatter:
    shown = [variants[place] for place in places]
    bars = {
        "type": "data",
        "symmetric": False,
        "array": [one.report.high - one.report.value for one in shown],
        "arrayminus": [one.report.value - one.report.low for one in shown],
        "color": role.colour,
        "thickness": 1.2 if size == SMALL else 2,
        "width": 0,
    }
    return go.Scatter(
        x=[across(one) for one in shown],
        y=[one.report.value for one in shown],
        mode="markers",
        name=role.title,
        legendrank=1000 if size == SMALL else 1,
        marker={"color": role.colour, "symbol": role.symbol, "size": size},
        error_y=bars,
        text=[_words(one) for one in shown],
        hovertemplate="%{text}<extra></extra>",
    )


def _words(one: JudgedVariant) -> str:
    report = one.report
    lines = [
        plain(one.name, LONGEST_NAME),
        f"{report.value:.3f} [{report.low:.3f}, {report.high:.3f}]",
        f"{count(one.bytes)} bytes, IsoScore {number(one.isoscore)}",
    ]
    return "<br>".join(lines)
