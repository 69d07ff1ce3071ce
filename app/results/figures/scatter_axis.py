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
    """Positions of values at equal steps; empty on other axes."""

    @classmethod
    def build(cls, plan: ScatterPlan, quantity: Quantity, scale: str, points: Sequence[ScatterPoint]) -> "ScatterAxis":
        """Return the axis of points.

        Text values are placed at equal steps, and so is λ unless a search chose it or a scale is given.
        """
        values = set() if quantity.measured else {point.values[quantity.key] for point in points}
        lambda_steps = quantity.key == LAM and not scale and not plan.run_table.is_searched
        if lambda_steps or any(isinstance(value, str) for value in values):
            ordered = sorted(values, key=partial(sort_key, quantity.key))
            return cls(quantity, steps={value: float(step) for step, value in enumerate(ordered)})
        return cls(quantity, scale == "log")

    def position(self, point: ScatterPoint) -> Estimate:
        if mean := point.means.get(self.quantity.key):
            return mean
        value = point.values[self.quantity.key]
        return Estimate(self.steps[value] if self.steps else float(value or 0), None, 1)

    def limits(self, estimates: Sequence[Estimate], values: Iterable[float | None]) -> list[float]:
        """Return both limits, as logarithms on a logarithmic axis. ``values`` belong to single runs."""
        if self.steps:
            return [-0.5, len(self.steps) - 0.5]
        run_values = [value for value in values if value is not None]
        if self.log:
            ends = [end for estimate in estimates for end in (estimate.mean, *estimate.ends)]
            return list(log_axis("", [*run_values, *ends])["range"])
        means = [*(estimate.mean for estimate in estimates), *run_values]
        low = min(*means, *(max(estimate.ends[0], self.quantity.bounds[0]) for estimate in estimates))
        high = max(*means, *(min(estimate.ends[1], self.quantity.bounds[1]) for estimate in estimates))
        margin = 0.12 * (high - low) or 0.05
        return [
            min(low, max(low - margin, self.quantity.bounds[0] - BOUND_MARGIN)),
            max(high, min(high + margin, self.quantity.bounds[1] + BOUND_MARGIN)),
        ]

    def layout(self, limits: list[float]) -> dict[str, Any]:
        if self.log:
            return log_axis(self.quantity.axis, [10.0**limit for limit in limits]) | {"range": limits}
        axis: dict[str, Any] = {"title": {"text": self.quantity.axis}, "range": limits}
        if not self.steps:
            return axis
        ticks = pick_evenly([*self.steps.items()], MAX_TICKS)
        texts = [escape_text(cell_text(value), MAX_TICK_LENGTH) for value, _ in ticks]
        return axis | {"tickvals": [step for _, step in ticks], "ticktext": texts}

    def drawn_extent(self, estimate: Estimate) -> tuple[float, float]:
        if not self.log:
            return estimate.mean, estimate.half_width or 0
        return log10(estimate.mean), log10(estimate.ends[1]) - log10(estimate.mean)
