"""Limits that healthy clouds exceed once in a thousand, by rows and dimensions; and the largest gap of a spectrum."""

import json
from functools import cache
from importlib.resources import files
from math import log
from typing import Any, NamedTuple

import torch
from torch import Tensor

TABLE = "limits.json"  # Made by `python -m benchmarks.finding_limits`


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(files("isotropy.findings").joinpath(TABLE).read_text(encoding="utf-8"))
    return table


def healthy_limit(statistic: str, n: int, d: float) -> float:
    """Return the 99.9% point of a statistic in healthy clouds, interpolated in log n and log d."""
    table = _table()
    values = table["statistics"][statistic]
    # For rows, then dimensions: the last grid point not above the value, and the fraction of the way to the next.
    grid_positions: list[tuple[int, float]] = []
    for grid, value in ((table["rows"], n), (table["dimensions"], d)):
        index = max((i for i, point in enumerate(grid) if point <= value), default=0)
        is_inside = grid[0] < value < grid[-1]
        fraction = log(value / grid[index]) / log(grid[index + 1] / grid[index]) if is_inside else 0.0
        grid_positions.append((index, fraction))
    (row, row_fraction), (column, column_fraction) = grid_positions
    row_values = [
        (1 - column_fraction) * values[i][column] + column_fraction * values[i][min(column + 1, len(values[i]) - 1)]
        for i in (row, min(row + 1, len(values) - 1))
    ]
    return float((1 - row_fraction) * row_values[0] + row_fraction * row_values[1])


ROUNDING_FRACTION = 1e-12  # Fraction of the largest value below which values differ by rounding only


class Gap(NamedTuple):
    """The gap that stands out most from the decay after it."""

    excess: float  # Excess in natural logarithms; minus infinity if there are too few values
    n_above: int  # Values above the gap
    ratio: float  # The smallest value above the gap over the largest below it


NO_GAP = Gap(float("-inf"), 0, 1.0)


def find_largest_gap(values: Tensor, max_above: int) -> Gap:
    """Return the gap of values [d] >= 0 that most exceeds the decay after it, with at most ``max_above`` values above.

    Below the k largest values v the excess is log(v_k / v_(k+1)) - log(v_(k+1) / v_(2k+2)): at most 0 for decay by a
    power of the rank or exponential decay.
    """
    v = values.double().sort(descending=True).values
    k = torch.arange(1, min(max_above, len(v) // 2 - 1) + 1)
    if len(k) == 0 or not v.isfinite().all() or float(v[0]) <= 0:
        return NO_GAP
    logs = v.clamp(min=float(v[0]) * ROUNDING_FRACTION).log()
    drop = logs[k - 1] - logs[k]
    excess = drop - (logs[k] - logs[2 * k + 1])
    best = int(excess.argmax())
    return Gap(float(excess[best]), best + 1, float(drop[best].exp()))
