"""What healthy clouds exceed once in a thousand, by their rows and dimensions."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from math import log
from typing import Any

TABLE = "limits.json"
"""Made by ``python -m benchmarks.finding_limits``."""


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(files("isotropy.findings").joinpath(TABLE).read_text(encoding="utf-8"))
    return table


def limit(statistic: str, n: int, d: float) -> float:
    """Return the 99.9% point of a statistic for n rows and d dimensions.

    Interpolated in the logarithms of both; beyond the grid the value at its edge.
    """
    table = _table()
    values = table["statistics"][statistic]
    row, right = _place(table["rows"], n)
    column, down = _place(table["dimensions"], d)
    ends = [
        (1 - down) * values[i][column] + down * values[i][min(column + 1, len(values[i]) - 1)]
        for i in (row, min(row + 1, len(values) - 1))
    ]
    return float((1 - right) * ends[0] + right * ends[1])


def _place(grid: list[float], value: float) -> tuple[int, float]:
    """Return the place of the grid's last point that is not beyond a value, and how far the value is to the next."""
    if value <= grid[0]:
        return 0, 0.0
    if value >= grid[-1]:
        return len(grid) - 1, 0.0
    place = max(i for i, one in enumerate(grid) if one <= value)
    return place, log(value / grid[place]) / log(grid[place + 1] / grid[place])
