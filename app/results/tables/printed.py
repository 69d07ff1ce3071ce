"""Print a summary: decimals, bold cells and the caption."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from statistics import median_low
from typing import NamedTuple

from app.results.statistics.estimate import Estimate
from app.results.tables.summary import SummaryColumn, SummaryTable
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
    """Round every cell, each column to the same decimals."""
    columns = list(zip(*(row.cells for row in summary.rows), strict=True)) or [() for _ in summary.columns]
    values = [
        _print_column(
            cells,
            style,
            [style.bold and column.greater_is_better and column.dataset not in row.pruned_on for row in summary.rows],
        )
        for column, cells in zip(summary.columns, columns, strict=True)
    ]
    usual_size = _most_common_size([cell.n for column in values for cell in column if cell is not None])
    values = [[cell and cell._replace(size="" if cell.n == usual_size else f"n = {count(cell.n)}") for cell in column]
              for column in values]  # fmt: skip
    lines = [PrintedRow(row.labels, [cells[index] for cells in values]) for index, row in enumerate(summary.rows)]
    several_datasets, several_measures = len(_datasets(summary)) > 1, len(_measures(summary)) > 1
    heads = [_head(column, several_datasets, several_measures) for column in summary.columns]
    return PrintedTable(_caption(summary, values), summary.heads, heads, lines)


def choose_decimals(cells: Sequence[Estimate | None]) -> int:
    """Return the median number of decimals that gives a column's deviations two significant digits."""
    needed = [_decimals_for_two_digits(cell.half_width) for cell in cells if cell is not None and cell.half_width]
    return min(max(median_low(needed), 0), MAX_DECIMALS) if needed else DEFAULT_DECIMALS


def _decimals_for_two_digits(std: float) -> int:
    # Of the rounded value: 0.0996 becomes 0.10, whose two digits are one decimal fewer.
    return 1 - floor(log10(float(f"{std:.1e}")))


def _print_column(
    cells: Sequence[Estimate | None], style: PrintStyle, bold: Sequence[bool]
) -> list[PrintedValue | None]:
    """Print cells; ``bold`` says which of them can be the best."""
    decimals = choose_decimals(cells) if style.decimals is None else style.decimals
    best = _find_best([cell for cell, can_be_bold in zip(cells, bold, strict=True) if can_be_bold], decimals)
    return [
        None if cell is None else _print_value(cell, decimals, best if can_be_bold else None)
        for cell, can_be_bold in zip(cells, bold, strict=True)
    ]


def _print_value(estimate: Estimate, decimals: int, best: str | None) -> PrintedValue:
    mean = format_fixed(estimate.mean, decimals)
    return PrintedValue(
        mean,
        None if estimate.half_width is None else format_fixed(estimate.half_width, decimals),
        estimate.n,
        mean == best,
    )


def _find_best(cells: Sequence[Estimate | None], decimals: int) -> str | None:
    means = [cell.mean for cell in cells if cell is not None]
    differ = len({format_fixed(mean, decimals) for mean in means}) > 1
    return format_fixed(max(means), decimals) if differ else None


def format_fixed(value: float, decimals: int) -> str:
    """Format a number, without a minus before zero."""
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _head(column: SummaryColumn, several_datasets: bool, several_measures: bool) -> str:
    if several_datasets and several_measures:
        return f"{column.dataset}, {column.measure}"
    return column.dataset if several_datasets else column.measure


def _most_common_size(sizes: Sequence[int]) -> int:
    return max(Counter(sizes).items(), key=lambda item: (item[1], item[0]), default=(0, 0))[0]


def _datasets(summary: SummaryTable) -> list[str]:
    return list(dict.fromkeys(column.dataset for column in summary.columns))


def _measures(summary: SummaryTable) -> list[str]:
    return list(dict.fromkeys(column.measure for column in summary.columns))


def _caption(summary: SummaryTable, values: Sequence[Sequence[PrintedValue | None]]) -> str:
    sizes = [cell.n for column in values for cell in column if cell is not None]
    if not sizes:
        return " ".join(["No finished run has a value.", *summary.notes])
    datasets, measures = _datasets(summary), _measures(summary)
    subject = measures[0] if len(measures) == 1 else "each measure"
    place_words = f" on {datasets[0]}" if len(datasets) == 1 else " on each data set" if datasets else ""
    low, high = min(sizes), max(sizes)
    n = f"n = {count(_most_common_size(sizes))}{'' if low == high else ' unless a cell says otherwise'}"
    sentences = [f"Mean ± standard deviation of {subject}{place_words} over seeds ({n})."]
    if high == 1:
        sentences = [f"{capitalized(subject)}{place_words} of single seeds (n = 1), which have no standard deviation."]
    elif low == 1:
        sentences.append("A single seed has no standard deviation.")
    if any(cell is not None and cell.best for column in values for cell in column):
        sentences.append("Bold: the largest mean of a column.")
    return " ".join([*sentences, *summary.notes])
