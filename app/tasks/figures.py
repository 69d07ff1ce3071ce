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


class VariantRole(NamedTuple):
    """A variant that a figure names, and how it is drawn."""

    title: str
    colour: str
    symbol: str


AS_IT_IS = VariantRole("As it is", palette.MAIN, "square")
CHOSEN = VariantRole("Chosen", palette.MARKED, "circle")
SMALLEST = VariantRole("Smallest", palette.SECOND, "diamond")


def task_figures(results: TaskResults) -> list[Figure]:
    """Return the figures of a task that has finished."""
    return [record(results) for record in RECORDS]


def roles_of(results: TaskResults) -> dict[int, str]:
    """Return what is said of the variants that a task names, by their places."""
    titles_by_index = {results.baseline: [AS_IT_IS.title]}
    for index, role in ((results.chosen, CHOSEN), (results.smallest, SMALLEST)):
        titles_by_index.setdefault(index, []).append(role.title)
    return {index: ", ".join([titles[0], *map(str.lower, titles[1:])]) for index, titles in titles_by_index.items()}


def _describe_marked(results: TaskResults) -> str:
    """Return which variants are marked: "Chosen: Centering. Smallest: PCA-192 int8."."""
    roles = {index: role for index, role in roles_of(results).items() if index != results.baseline}
    return "".join(f" {role}: {results.variants[index].name}." for index, role in roles.items())


def pareto(results: TaskResults) -> list[int]:
    """Return the places of the variants that no other beats in bytes and score at once, the smallest first."""
    best: list[int] = []
    variants = results.variants
    for index in sorted(range(len(variants)), key=lambda i: (variants[i].bytes, -variants[i].report.value)):
        if not best or variants[index].report.value > variants[best[-1]].report.value:
            best.append(index)
    return best


def isotropy_of_variants(results: TaskResults) -> Figure:
    """The task's score by bias-corrected IsoScore, a point for each variant."""
    slug, title = "isotropy", "Performance by isotropy"
    drawn = [index for index, variant in enumerate(results.variants) if variant.isoscore is not None]
    if not drawn:
        return undefined(slug, title, "IsoScore is undefined for these vectors.")
    left_out = len(results.variants) - len(drawn)
    note = f" IsoScore of {plural(left_out, 'variant')} is undefined." if left_out else ""
    return Figure(
        slug=slug,
        title=title,
        caption=f"Each point is a variant. Bars are 95% intervals.{note} Pale variants are not corrected for choosing."
        f"{_describe_marked(results)}",
        table=_table(results),
        draw=partial(_draw, results, drawn, lambda variant: variant.isoscore or 0.0, _isotropy_axis, ()),
    )


def bytes_of_variants(results: TaskResults) -> Figure:
    """The task's score by the bytes of a stored vector, with the variants that nothing beats on a line."""
    front = pareto(results)
    table = _table(results)
    rows: list[list[Cell]] = [[*row, "yes" if number in front else ""] for number, row in enumerate(table.rows)]
    return Figure(
        slug="bytes",
        title="Performance by size",
        caption="Each point is a variant. No other beats those on the line in both size and score, on these rows."
        f"{_describe_marked(results)}",
        table=FigureTable([*table.columns, "on the line"], rows),
        draw=partial(
            _draw, results, range(len(results.variants)), lambda variant: float(variant.bytes), _bytes_axis, front
        ),
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


def _draw(results: TaskResults, indices: Sequence[int], across: Across, axis: Axis, front: Sequence[int]) -> go.Figure:
    variants = results.variants
    marked = {results.baseline: AS_IT_IS, results.chosen: CHOSEN, results.smallest: SMALLEST}
    roles = roles_of(results)
    unmarked = [index for index in indices if index not in marked]
    traces = [_points(variants, unmarked, across, VariantRole("Others", palette.QUIET, "circle"), SMALL)]
    if front:
        x, y = ([take(variants[index]) for index in front] for take in (across, lambda variant: variant.report.value))
        line = {"color": palette.QUIET, "dash": "dot", "shape": "hv", "width": 1.5}
        traces.append(
            go.Scatter(x=x, y=y, mode="lines", line=line, name="Best for its size", hoverinfo="skip", legendrank=2)
        )
    for index, role in marked.items():
        if index in indices:
            traces.append(_points(variants, [index], across, role._replace(title=roles[index]), SIZE))
    x_values = [across(variants[index]) for index in indices]
    return plot(
        traces,
        showlegend=True,
        xaxis=axis(x_values),
        yaxis=linear_axis(METRICS[results.metric], [variants[index].report.value for index in indices]),
    )


def _points(
    variants: Sequence[JudgedVariant], indices: Sequence[int], across: Across, role: VariantRole, size: int
) -> go.Scatter:
    drawn = [variants[index] for index in indices]
    bars = {
        "type": "data",
        "symmetric": False,
        "array": [variant.report.high - variant.report.value for variant in drawn],
        "arrayminus": [variant.report.value - variant.report.low for variant in drawn],
        "color": role.colour,
        "thickness": 1.2 if size == SMALL else 2,
        "width": 0,
    }
    return go.Scatter(
        x=[across(variant) for variant in drawn],
        y=[variant.report.value for variant in drawn],
        mode="markers",
        name=role.title,
        legendrank=1000 if size == SMALL else 1,
        marker={"color": role.colour, "symbol": role.symbol, "size": size},
        error_y=bars,
        text=[_words(variant) for variant in drawn],
        hovertemplate="%{text}<extra></extra>",
    )


def _words(variant: JudgedVariant) -> str:
    report = variant.report
    lines = [
        plain(variant.name, LONGEST_NAME),
        f"{report.value:.3f} [{report.low:.3f}, {report.high:.3f}]",
        f"{count(variant.bytes)} bytes, IsoScore {number(variant.isoscore)}",
    ]
    return "<br>".join(lines)
