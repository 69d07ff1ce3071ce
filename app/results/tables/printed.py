"""Print a summary: decimals, bold cells and the caption."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from statistics import median_low
from typing import NamedTuple

from app.results.statistics.estimate import Estimate
from app.results.tables.summary import SummaryTable
from isoscope.core.formatting import capitalized, count

MAX_DECIMALS = 6
DEFAULT_DECIMALS = 3
"""Decimals without a standard deviation."""


class PrintStyle(NamedTuple):
    """Decimals of all cells (None: as the deviations allow), and whether the best of a column is bold."""

    decimals: int | None = None
    bold: bool = True


class PrintedValue(NamedTuple):
    """A cell as text with hyphens for minus; ``std`` is None for a single run."""

    mean: str
    std: str | None
    n: int
    best: bool
    size: str = ""
    """Number of seeds in words, if it differs from the caption's."""


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
    lines: list[PrintedRow]


def print_summary(summary: SummaryTable, style: PrintStyle) -> PrintedTable:
    """Round every cell, with the same number of decimals in a column."""
    columns = list(zip(*(row.cells for row in summary.rows), strict=True)) or [() for _ in summary.columns]
    values: list[list[PrintedValue | None]] = [[] for _ in columns]
    for column, cells, printed in zip(summary.columns, columns, values, strict=True):
        decimals = choose_decimals(cells) if style.decimals is None else style.decimals
        can_be_bold = style.bold and column.greater_is_better
        bold = [can_be_bold and column.dataset not in row.pruned_on for row in summary.rows]
        means = [cell.mean for cell, eligible in zip(cells, bold, strict=True) if cell is not None and eligible]
        means_differ = len({format_fixed(mean, decimals) for mean in means}) > 1
        best = format_fixed(max(means), decimals) if means_differ else None
        for cell, eligible in zip(cells, bold, strict=True):
            if cell is None:
                printed.append(None)
                continue
            mean = format_fixed(cell.mean, decimals)
            std = None if cell.half_width is None else format_fixed(cell.half_width, decimals)
            printed.append(PrintedValue(mean, std, cell.n, eligible and mean == best))
    sizes = Counter(cell.n for column in values for cell in column if cell is not None)
    usual_size = max(sizes.items(), key=lambda item: (item[1], item[0]), default=(0, 0))[0]
    values = [[cell and cell._replace(size="" if cell.n == usual_size else f"n = {count(cell.n)}") for cell in column]
              for column in values]  # fmt: skip
    lines = [PrintedRow(row.labels, [cells[index] for cells in values]) for index, row in enumerate(summary.rows)]
    datasets = list(dict.fromkeys(column.dataset for column in summary.columns))
    measures = list(dict.fromkeys(column.measure for column in summary.columns))
    heads = [column.dataset if len(datasets) > 1 else column.measure for column in summary.columns]
    if len(datasets) > 1 and len(measures) > 1:
        heads = [f"{column.dataset}, {column.measure}" for column in summary.columns]
    if not sizes:
        return PrintedTable(" ".join(["No finished run has a value.", *summary.notes]), summary.heads, heads, lines)
    subject = measures[0] if len(measures) == 1 else "each measure"
    scope = f" on {datasets[0]}" if len(datasets) == 1 else " on each data set" if datasets else ""
    size_note = f"n = {count(usual_size)}{'' if len(sizes) == 1 else ' unless a cell says otherwise'}"
    sentences = [f"Mean ± standard deviation of {subject}{scope} over seeds ({size_note})."]
    if max(sizes) == 1:
        sentences = [f"{capitalized(subject)}{scope} of single seeds (n = 1), which have no standard deviation."]
    elif min(sizes) == 1:
        sentences.append("A single seed has no standard deviation.")
    if any(cell is not None and cell.best for column in values for cell in column):
        sentences.append("Bold: the largest mean of a column.")
    return PrintedTable(" ".join([*sentences, *summary.notes]), summary.heads, heads, lines)


def choose_decimals(cells: Sequence[Estimate | None]) -> int:
    """Return the median number of decimals that gives the deviations of a column two significant digits."""
    # Count decimals after rounding: 0.0996 becomes 0.10, which needs one decimal fewer.
    rounded = [float(f"{cell.half_width:.1e}") for cell in cells if cell is not None and cell.half_width]
    needed = median_low([1 - floor(log10(std)) for std in rounded]) if rounded else DEFAULT_DECIMALS
    return min(max(needed, 0), MAX_DECIMALS)


def format_fixed(value: float, decimals: int) -> str:
    """Format a number, without a minus before zero."""
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text
