"""The axis of a scatter: where points stand on it, its limits and its ticks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import log10
from typing import Any

from app.figures.figure import Cell, escape_text, log_axis, pick_evenly
from app.results.figures.scatter_points import Quantity, ScatterPlan, ScatterPoint
from app.results.run_table import LAM, cell_text, sort_key
from app.results.statistics.estimate import Estimate

MAX_TICKS = 15
MAX_TICK_LENGTH = 24
# Margin beyond the bounds of a quantity, so that marks on a bound are not cut off.
BOUND_MARGIN = 0.03


@dataclass(frozen=True)
class ScatterAxis:
    """An axis: linear, logarithmic, or with values at equal steps."""

    quantity: Quantity
    log: bool = False
    steps: Mapping[Cell, float] = field(default_factory=dict)
    """Positions 0, 1, 2, ... of values at equal steps; empty on other axes."""

    @classmethod
    def build(cls, plan: ScatterPlan, quantity: Quantity, scale: str, points: Sequence[ScatterPoint]) -> "ScatterAxis":
        """Return the axis of points. ``scale`` is "linear", "log" or empty.

        Text values are placed at equal steps, and so is λ unless a λ search chose it or a scale is given.
        """
        values = set() if quantity.measured else {point.values[quantity.key] for point in points}
        is_stepped_lambda = quantity.key == LAM and not scale and not plan.run_table.is_searched
        if is_stepped_lambda or any(isinstance(value, str) for value in values):
            ordered_values = sorted(values, key=partial(sort_key, quantity.key))
            return cls(quantity, steps={value: float(step) for step, value in enumerate(ordered_values)})
        return cls(quantity, log=scale == "log")

    def position(self, point: ScatterPoint) -> Estimate:
        """Return where a point stands; without an error bar unless the quantity is measured."""
        if mean := point.means.get(self.quantity.key):
            return mean
        value = point.values[self.quantity.key]
        return Estimate(self.steps[value] if self.steps else float(value or 0), None, 1)

    def limits(self, means: Sequence[Estimate], run_values: Iterable[float | None]) -> list[float]:
        """Return both limits of an axis for means with error bars and values of single runs; logarithms if ``log``."""
        if self.steps:
            return [-0.5, len(self.steps) - 0.5]
        values = [*(mean.mean for mean in means), *(value for value in run_values if value is not None)]
        if self.log:
            return list(log_axis("", [*values, *(end for mean in means for end in mean.ends)])["range"])
        lower_bound, upper_bound = self.quantity.bounds
        low = min(*values, *(max(mean.ends[0], lower_bound) for mean in means))
        high = max(*values, *(min(mean.ends[1], upper_bound) for mean in means))
        margin = 0.12 * (high - low) or 0.05
        return [
            min(low, max(low - margin, lower_bound - BOUND_MARGIN)),
            max(high, min(high + margin, upper_bound + BOUND_MARGIN)),
        ]

    def layout(self, limits: list[float]) -> dict[str, Any]:
        """Return plotly's settings for the axis."""
        if self.log:
            return log_axis(self.quantity.axis_title, [10.0**limit for limit in limits]) | {"range": limits}
        axis: dict[str, Any] = {"title": {"text": self.quantity.axis_title}, "range": limits}
        if not self.steps:
            return axis
        ticks = pick_evenly([*self.steps.items()], MAX_TICKS)
        labels = [escape_text(cell_text(value), MAX_TICK_LENGTH) for value, _ in ticks]
        return axis | {"tickvals": [step for _, step in ticks], "ticktext": labels}

    def drawn_extent(self, mean: Estimate) -> tuple[float, float]:
        """Return the coordinate of a mean and the length of its upper error bar, as logarithms if ``log``."""
        if not self.log:
            return mean.mean, mean.half_width or 0
        return log10(mean.mean), log10(mean.ends[1]) - log10(mean.mean)
