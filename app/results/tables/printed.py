"""Print a summary: decimals, bold cells and the caption."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from statistics import median_low
from typing import NamedTuple

from app.results.conclusion.comparisons import Verdict
from app.results.statistics.estimate import Estimate
from app.results.tables.summary import SummaryTable
from isoscope.core.formatting import capitalized, count

MAX_DECIMALS = 6
DEFAULT_DECIMALS = 3
"""Decimals of a column without half-widths."""
ALL_EQUAL = "all equal"


class PrintStyle(NamedTuple):
    """Decimals of all cells (None: by column, as the half-widths allow), and whether the best cell is bold."""

    decimals: int | None = None
    bold: bool = True


class PrintedValue(NamedTuple):
    """A cell as text with hyphens for minus. The half-width is None for one seed, or if all have the same score."""

    mean: str
    half_width: str | None
    n: int
    best: bool
    size: str = ""
    """The number of seeds if the caption states another, "all equal" if their scores are, and "collapsed"."""


class PrintedRow(NamedTuple):
    """A row as text."""

    labels: list[str]
    cells: list[PrintedValue | None]


@dataclass(frozen=True)
class PrintedTable:
    """A table as text, without markup."""

    caption: str
    heads: list[str]
    columns: list[str]
    rows: list[PrintedRow]


def print_summary(summary: SummaryTable, style: PrintStyle) -> PrintedTable:
    """Return the caption and the cells of a table as text, with the same number of decimals in a column."""
    cells_by_column = list(zip(*(row.cells for row in summary.rows), strict=True)) or [() for _ in summary.columns]
    sizes = Counter(cell.n for cells in cells_by_column for cell in cells if cell is not None)
    usual_size = max(sizes, key=lambda size: (sizes[size], size), default=0)
    printed_columns: list[list[PrintedValue | None]] = []
    for column, cells in zip(summary.columns, cells_by_column, strict=True):
        decimals = choose_decimals(cells) if style.decimals is None else style.decimals
        verdicts = [row.verdicts.get(column) for row in summary.rows]
        printed_columns.append(
            [
                None if cell is None else _print_value(cell, decimals, usual_size, verdict, bold=style.bold)
                for cell, verdict in zip(cells, verdicts, strict=True)
            ]
        )
    rows = [
        PrintedRow(row.labels, [values[index] for values in printed_columns]) for index, row in enumerate(summary.rows)
    ]
    datasets = list(dict.fromkeys(column.dataset for column in summary.columns))
    measures = list(dict.fromkeys(column.measure for column in summary.columns))
    titles = [column.dataset if len(datasets) > 1 else column.measure for column in summary.columns]
    if len(datasets) > 1 and len(measures) > 1:
        titles = [f"{column.dataset}, {column.measure}" for column in summary.columns]
    columns = [f"{title} ± 95%" for title in titles]
    if not sizes:
        return PrintedTable(" ".join(["No finished run has a value.", *summary.notes]), summary.heads, columns, rows)
    subject = measures[0] if len(measures) == 1 else "each measure"
    scope = ""
    if datasets:
        scope = f" on {datasets[0]}" if len(datasets) == 1 else " on each data set"
    size_note = f"n = {count(usual_size)}{'' if len(sizes) == 1 else ' unless a cell says otherwise'}"
    sentences = [f"Mean ± half the 95% interval of {subject}{scope} over seeds ({size_note})."]
    if max(sizes) == 1:
        sentences = [f"{capitalized(subject)}{scope} of single seeds (n = 1), which have no interval."]
    elif min(sizes) == 1:
        sentences.append("A single seed has no interval.")
    printed_values = [value for values in printed_columns for value in values if value is not None]
    if any(ALL_EQUAL in value.size for value in printed_values):
        sentences.append("All equal: the seeds have the same score, so their error is unknown.")
    if any(Verdict.COLLAPSED in value.size for value in printed_values):
        sentences.append("Collapsed: most seeds give the same prediction for nearly all rows, or diverged.")
    if any(value.best for value in printed_values):
        sentences.append("Bold: better than the baseline by a verdict, and by the most.")
    return PrintedTable(" ".join([*sentences, *summary.notes]), summary.heads, columns, rows)


def _print_value(
    estimate: Estimate, decimals: int, usual_size: int, verdict: Verdict | None, *, bold: bool
) -> PrintedValue:
    size_notes = [] if estimate.n == usual_size else [f"n = {count(estimate.n)}"]
    half_width = None if estimate.half_width is None else _format_half_width(estimate.half_width, decimals)
    size_notes += [ALL_EQUAL] if estimate.half_width is not None and half_width is None else []
    size_notes += [verdict.value] if verdict is Verdict.COLLAPSED else []
    best = bold and verdict is Verdict.BETTER
    return PrintedValue(format_fixed(estimate.mean, decimals), half_width, estimate.n, best, ", ".join(size_notes))


def _format_half_width(half_width: float, decimals: int) -> str | None:
    """Format a half-width, with more decimals if it would print as 0; None if it would with ``MAX_DECIMALS`` too."""
    texts = (f"{half_width:.{precision}f}" for precision in range(decimals, MAX_DECIMALS + 1))
    return next((text for text in texts if float(text)), None)


def choose_decimals(cells: Sequence[Estimate | None]) -> int:
    """Return the decimals of a column: the median of those that give each half-width two significant digits."""
    # Count decimals after rounding: 0.0996 becomes 0.10, which needs one decimal fewer.
    rounded = [float(f"{cell.half_width:.1e}") for cell in cells if cell is not None and cell.half_width]
    needed = median_low([1 - floor(log10(half_width)) for half_width in rounded]) if rounded else DEFAULT_DECIMALS
    return min(max(needed, 0), MAX_DECIMALS)


def format_fixed(value: float, decimals: int) -> str:
    """Format a number, without a minus before zero."""
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text
