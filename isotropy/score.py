"""The value of a measure, or the reason why it has none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

FEWEST_FOR_SE = 20  # Minimum number of points for a standard error; below it the estimate is too uncertain
OUT_OF_RANGE = "In the units of the points the value is beyond the range of float64. Scale them all by one factor."


@dataclass(frozen=True)
class Score:
    """A finite value, or None with the reason why the measure is undefined, in one sentence."""

    value: float | None
    reason: str | None = None
    se: float | None = None  # Standard error of the value, in its units, where one is known
    # Each block's part of the error, if it comes from blocks: `se` is the root of the sum of their squares. For two
    # values of the same rows, differences of parts give the error of the difference.
    parts: tuple[float, ...] = ()

    @classmethod
    def within(cls, value: float, low: float, high: float) -> Score:
        """Return a score clipped to [low, high], which rounding may leave; NaN is undefined."""
        if math.isnan(value):
            return cls.undefined("It comes out as not a number: what it is made of is not finite, or too large.")
        return cls(float(min(max(value, low), high)))

    def with_error(self, parts: Sequence[float]) -> Score:
        """Return the value with the standard error that the blocks' parts imply, or with none if there are no parts."""
        return replace(self, se=math.hypot(*parts) if parts else None, parts=tuple(parts))

    def times(self, *factors: float) -> Score:
        """Convert the score to other units; undefined if the value or its error leaves float64."""
        if self.value is None or all(factor == 1 for factor in factors):
            return self
        value, se = (math.prod((number or 0.0, *factors)) for number in (self.value, self.se))
        if not math.isfinite(value) or not math.isfinite(se) or (value == 0) != (self.value == 0):
            return Score.undefined(OUT_OF_RANGE)
        parts = tuple(math.prod((part, *factors)) for part in self.parts)
        return Score(value, se=None if self.se is None else se, parts=parts)

    @classmethod
    def undefined(cls, reason: str) -> Score:
        return cls(None, reason)


def count_clause(n: int) -> str:
    """Return "there is 1", "there are 3" and so on, to end a reason."""
    return f"there {'is' if n == 1 else 'are'} {n}"
