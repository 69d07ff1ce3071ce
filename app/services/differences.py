"""How far a measurement lies from that of another embedding, with the interval that the measure allows."""

from math import hypot
from typing import Any, NamedTuple

from app.db.models import Measurement
from app.statistics.estimate import block_degrees
from app.statistics.student import quantile
from isotropy.catalog import MEASURES, Measure

ROUNDING = 1e-7
"""Part of the values below which a difference is taken as one of rounding: that of float32."""
ROUNDING_OF_RANGE = 1e-9
"""Part of the measure's range below which it is."""
MEASURE_AGAIN = "Measured by an earlier version. Measure it again to get an interval."


class Difference(NamedTuple):
    """A value less that of the baseline. Error and ends are None where there is no interval."""

    value: float
    se: float | None = None
    low: float | None = None
    high: float | None = None
    paired: bool = False
    """Whether the error is that of the same rows in both."""
    n: int | None = None
    """Rows of either from which the difference was taken, where those are fewer than the measurements' own."""
    reason: str = ""
    """Why there is no interval."""

    @property
    def excludes_zero(self) -> bool | None:
        """Whether the 95% interval does; None where there is no interval."""
        return None if self.low is None or self.high is None else self.low > 0 or self.high < 0


class _Known(NamedTuple):
    """A value with what each block of rows adds to its error."""

    value: float
    parts: list[float]


def difference(one: Measurement | None, baseline: Measurement | None, *, same_rows: bool = False) -> Difference | None:
    """Return how far a value lies from the baseline's; None where one of the two has no value.

    Args:
        one: a measurement.
        baseline: the same measure of another embedding.
        same_rows: whether both are of the same rows in the same order, dealt to the same blocks.

    """
    if one is None or baseline is None or one.value is None or baseline.value is None:
        return None
    measure = MEASURES[one.measure]
    value = one.value - baseline.value
    if is_rounding(measure, one, baseline):
        return Difference(0.0, reason="No difference: the values are equal but for rounding.")
    if measure.compared == "never":
        return Difference(value, reason=_why_never(measure))
    if measure.compared == "at any n" or one.n == baseline.n:
        found = _between(_whole(one), _whole(baseline), None, same_rows)
        return found or Difference(value, reason=_why_none(one, baseline))
    sizes = [int(size) for size in _at(one).keys() & _at(baseline).keys()]
    if not sizes:
        return Difference(value, reason=f"Depends on the number of rows, here {one.n:,} and {baseline.n:,}.")
    n = max(sizes)
    first, second = (_Known(**_at(found)[str(n)]) for found in (one, baseline))
    return _between(first, second, n, same_rows)


def is_rounding(measure: Measure, one: Measurement, baseline: Measurement) -> bool:
    """Return whether two values differ by no more than the rounding of what they are made of."""
    a, b = one.value or 0.0, baseline.value or 0.0
    low, high = measure.bounds(max(one.n, 2), 2) if measure.bounds is not None else (0.0, 0.0)
    return abs(a - b) <= max(ROUNDING * max(abs(a), abs(b)), ROUNDING_OF_RANGE * (high - low))


def _between(one: _Known | None, baseline: _Known | None, n: int | None, same_rows: bool) -> Difference | None:
    if one is None or baseline is None:
        return None
    value = one.value - baseline.value
    paired = same_rows and len(one.parts) == len(baseline.parts)
    if paired:
        se = hypot(*(a - b for a, b in zip(one.parts, baseline.parts, strict=True)))
    else:
        se = hypot(*one.parts, *baseline.parts)
    # Of independent blocks the degrees of freedom are at least those of either: the interval is rather too wide.
    half = quantile(0.05, block_degrees(min(len(one.parts), len(baseline.parts)))) * se
    return Difference(value, se, value - half, value + half, paired, n)


def _whole(found: Measurement) -> _Known | None:
    return None if found.value is None or len(found.parts) < 2 else _Known(found.value, found.parts)


def _at(found: Measurement) -> dict[str, dict[str, Any]]:
    at: dict[str, dict[str, Any]] = (found.resampled or {}).get("at", {})
    return at


def _why_never(measure: Measure) -> str:
    if measure.corrected:
        return f"Biased by the number of rows. Compare {MEASURES[measure.corrected].name} instead."
    return "No error is known of this measure."


def _why_none(one: Measurement, baseline: Measurement) -> str:
    if any(found.se is not None and found.resampled is None for found in (one, baseline)):
        return MEASURE_AGAIN
    return "One of the two has no standard error, which takes enough independent rows."
