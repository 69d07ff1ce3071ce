"""A summary as it is printed: digits, what is bold, and the words above it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from statistics import median_low
from typing import NamedTuple

from app.results.statistics.estimate import Estimate
from app.results.tables.summary import Column, Summary
from isoscope.core.formatting import capitalized, count

MOST_DECIMALS = 6
WITHOUT_A_DEVIATION = 3
"""Decimals where nothing tells how many are certain."""


class Style(NamedTuple):
    """Decimals of all cells, None for those that the deviations allow; and whether the best of a column is bold."""

    decimals: int | None = None
    bold: bool = True


class Value(NamedTuple):
    """A cell as text, its minus a hyphen; ``std`` is None of a single run."""

    mean: str
    std: str | None
    n: int
    best: bool
    size: str = ""
    """How many seeds, in words, where they are not as many as the caption says."""


class Line(NamedTuple):
    """A row as text."""

    labels: list[str]
    cells: list[Value | None]


@dataclass(frozen=True)
class Printed:
    """A table as text, yet without a markup."""

    caption: str
    heads: list[str]
    columns: list[str]
    lines: list[Line]


def printed(summary: Summary, style: Style) -> Printed:
    """Every cell rounded, each column to the same decimals."""
    found = list(zip(*(row.cells for row in summary.rows), strict=True)) or [() for _ in summary.columns]
    values = [
        _column(
            cells,
            style,
            [style.bold and column.greater_is_better and column.dataset not in row.given_up for row in summary.rows],
        )
        for column, cells in zip(summary.columns, found, strict=True)
    ]
    usual = _usual([one.n for column in values for one in column if one is not None])
    values = [[one and one._replace(size="" if one.n == usual else f"n = {count(one.n)}") for one in column]
              for column in values]  # fmt: skip
    lines = [Line(row.labels, [cells[place] for cells in values]) for place, row in enumerate(summary.rows)]
    several_datasets, several_measures = len(_datasets(summary)) > 1, len(_measures(summary)) > 1
    heads = [_head(column, several_datasets, several_measures) for column in summary.columns]
    return Printed(_caption(summary, values), summary.heads, heads, lines)


def decimals_of(cells: Sequence[Estimate | None]) -> int:
    """Decimals that give the deviations of a column two significant digits: the middle one, where they differ."""
    needed = [_two_digits(one.half_width) for one in cells if one is not None and one.half_width]
    return min(max(median_low(needed), 0), MOST_DECIMALS) if needed else WITHOUT_A_DEVIATION


def _two_digits(std: float) -> int:
    # As it is printed: 0.0996 rounds to 0.10, whose two digits are a decimal fewer.
    return 1 - floor(log10(float(f"{std:.1e}")))


def _column(cells: Sequence[Estimate | None], style: Style, bold: Sequence[bool]) -> list[Value | None]:
    """Cells as text; ``bold`` says of each whether it may be the best."""
    decimals = decimals_of(cells) if style.decimals is None else style.decimals
    best = _best([one for one, may in zip(cells, bold, strict=True) if may], decimals)
    return [
        None if one is None else _value(one, decimals, best if may else None)
        for one, may in zip(cells, bold, strict=True)
    ]


def _value(found: Estimate, decimals: int, best: str | None) -> Value:
    mean = fixed(found.mean, decimals)
    return Value(mean, None if found.half_width is None else fixed(found.half_width, decimals), found.n, mean == best)


def _best(cells: Sequence[Estimate | None], decimals: int) -> str | None:
    """The greatest mean as it is printed; what is printed alike is as good. Where all are, none is the best."""
    means = [one.mean for one in cells if one is not None]
    differ = len({fixed(mean, decimals) for mean in means}) > 1
    return fixed(max(means), decimals) if differ else None


def fixed(value: float, decimals: int) -> str:
    """A number with so many decimals, and never a minus before zero."""
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _head(column: Column, several_datasets: bool, several_measures: bool) -> str:
    if several_datasets and several_measures:
        return f"{column.dataset}, {column.measure}"
    return column.dataset if several_datasets else column.measure


def _usual(sizes: Sequence[int]) -> int:
    """How many seeds most cells have; of equally many the greater number, and 0 where there is no cell."""
    return max(Counter(sizes).items(), key=lambda one: (one[1], one[0]), default=(0, 0))[0]


def _datasets(summary: Summary) -> list[str]:
    return list(dict.fromkeys(column.dataset for column in summary.columns))


def _measures(summary: Summary) -> list[str]:
    return list(dict.fromkeys(column.measure for column in summary.columns))


def _caption(summary: Summary, values: Sequence[Sequence[Value | None]]) -> str:
    sizes = [one.n for column in values for one in column if one is not None]
    if not sizes:
        return " ".join(["No finished run has a value.", *summary.notes])
    datasets, measures = _datasets(summary), _measures(summary)
    what = measures[0] if len(measures) == 1 else "each measure"
    where = f" on {datasets[0]}" if len(datasets) == 1 else " on each data set" if datasets else ""
    low, high = min(sizes), max(sizes)
    n = f"n = {count(_usual(sizes))}{'' if low == high else ' unless a cell says otherwise'}"
    sentences = [f"Mean ± standard deviation of {what}{where} over seeds ({n})."]
    if high == 1:
        sentences = [f"{capitalized(what)}{where} of single seeds (n = 1), which have no standard deviation."]
    elif low == 1:
        sentences.append("A single seed has no standard deviation.")
    if any(one is not None and one.best for column in values for one in column):
        sentences.append("Bold: the largest mean of a column.")
    return " ".join([*sentences, *summary.notes])
