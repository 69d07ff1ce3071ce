"""What a sweep needs before its conclusion can decide anything: the level of every test, seeds, values of λ."""

from math import factorial

LEVEL = 0.05
"""The p at or below which a test decides."""
FEWEST_SEEDS = 3
"""Fewer seeds give no interval that covers what it promises: a bootstrap of two covers .69."""


def lambdas_needed(level: float = LEVEL) -> int:
    """Return the fewest values of λ whose smallest p, two arrangements out of all, is at most this level."""
    return next(k for k in range(2, 20) if 2 / factorial(k) <= level)
