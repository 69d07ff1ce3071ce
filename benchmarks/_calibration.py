"""Check the claims of tests and intervals on simulated data whose truth is known, and print them as a table."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple
from zlib import crc32

import numpy as np

SEED = 20_261_122  # Fixed before the first simulation, so that its results could not influence it
LEVEL = 0.05
FALSE_POSITIVES = "false positives at .05"
COVERAGE = "coverage of 95%"
MIN_FALSE_POSITIVES, MAX_FALSE_POSITIVES = 0.035, 0.065
MIN_COVERAGE, MAX_COVERAGE = 0.925, 0.975

# Simulate a data set and return whether the test rejects, or the interval covers the truth. Picklable: a partial of a
# module-level function, not a lambda.
Simulate = Callable[[np.random.Generator], bool]


@dataclass(frozen=True)
class Case:
    """One claim on one kind of data."""

    name: str  # Unique, because the random numbers depend on it
    claim: str  # `FALSE_POSITIVES` or `COVERAGE`
    low: float  # Bounds of the rate at which `simulate` returns true
    high: float
    simulations: int
    simulate: Simulate
    # Largest probability of rejecting that a discrete test can attain at the level.
    attainable: float | None = None


class Rate(NamedTuple):
    """The simulated rate of a case."""

    case: Case
    rate: float
    simulations: int

    @property
    def error(self) -> float:
        """Return the binomial standard error of a rate at the nearer bound."""
        bound = min((self.case.low, self.case.high), key=lambda bound: abs(bound - self.rate))
        return sqrt(bound * (1 - bound) / self.simulations)

    def ok(self, errors: float = 0.0) -> bool:
        """Return whether the rate lies within the bounds, widened by this number of binomial errors."""
        slack = errors * self.error
        return self.case.low - slack <= self.rate <= self.case.high + slack


def false_positives(
    name: str, simulate: Simulate, simulations: int, *, discrete: bool = False, attainable: float | None = None
) -> Case:
    """Return the case of a test whose null hypothesis is true; ``simulate`` says whether p is at most ``LEVEL``.

    The rate of a discrete or corrected test may be as low as half the level that it can attain.
    """
    low = MIN_FALSE_POSITIVES
    if attainable is not None:
        low = attainable / 2
    elif discrete:
        low = LEVEL / 2
    return Case(name, FALSE_POSITIVES, low, MAX_FALSE_POSITIVES, simulations, simulate, attainable)


def coverage(name: str, simulate: Simulate, simulations: int, *, conservative: bool = False) -> Case:
    """Return the case of a 95% interval; ``simulate`` says whether it holds the truth.

    A conservative interval may cover more, if the page says that it does.
    """
    return Case(name, COVERAGE, MIN_COVERAGE, 1.0 if conservative else MAX_COVERAGE, simulations, simulate)


def rate(case: Case, simulations: int | None = None) -> Rate:
    """Simulate a case, with random numbers that depend on its name alone, up to a colon."""
    random = np.random.default_rng([SEED, crc32(case.name.partition(":")[0].encode())])
    n = simulations or case.simulations
    return Rate(case, sum(bool(case.simulate(random)) for _ in range(n)) / n, n)


def rates(cases: Sequence[Case], simulations: int | None = None, processes: int = 1) -> Iterator[Rate]:
    """Simulate all cases and yield their rates in order."""
    if processes == 1:
        yield from (rate(case, simulations) for case in cases)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(rate, cases, [simulations] * len(cases))


HEAD = "| case | claim | rate | bounds | attainable |\n|---|---|---|---|---|"


def row(result: Rate) -> str:
    """Return a row of a table in Markdown, under ``HEAD``."""
    case = result.case
    attainable = "" if case.attainable is None else f"{case.attainable:.3f}"
    mark = "" if result.ok() else " **outside**"
    return f"| {case.name} | {case.claim} | {result.rate:.3f}{mark} | {case.low:.3f}–{case.high:.3f} | {attainable} |"
