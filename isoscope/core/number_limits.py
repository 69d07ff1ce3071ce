"""Numbers that rows, files and pages can all hold: what is taken in from one place, another can take back."""

from typing import TypeVar

GREATEST = 1e100
LEAST = 1e-100
GREATEST_WHOLE = 2**53
LONGEST_NUMBER = 40

V = TypeVar("V")


def bounded(value: V) -> V:
    """The value as it is; raises ValueError at a number whose square, or whose last digit in a browser, is lost."""
    if isinstance(value, int) and abs(value) > GREATEST_WHOLE:
        raise ValueError(f"expected a whole number up to 2 to the power of 53, got {str(value)[:LONGEST_NUMBER]}")
    if isinstance(value, float) and value and not LEAST <= abs(value) <= GREATEST:
        raise ValueError(f"expected a number of a size from {LEAST:g} to {GREATEST:g}, or 0, got {value:g}")
    return value
