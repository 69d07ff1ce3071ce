"""Claims of tests and intervals, tried on simulated data of which the truth is known, and a table of them all."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple
from zlib import crc32

import numpy as np

SEED = 20_261_122  # Fixed before the first simulation, so that nobody chose it by its results
LEVEL = 0.05
FALSE_POSITIVES = "false positives at .05"
COVERAGE = "coverage of 95%"
LEAST_OF_CONTINUOUS, MOST_FALSE_POSITIVES = 0.035, 0.065
LEAST_COVERAGE, MOST_COVERAGE = 0.925, 0.975

# Make one data set and say whether the test rejected, or the interval covered the truth. Picklable: a partial of a
# function at the top of a module, not a lambda.
Simulate = Callable[[np.random.Generator], bool]


@dataclass(frozen=True)
class Case:
    """One claim on one kind of data."""

    name: str  # Its own among all cases: the random numbers depend on it
    claim: str  # `FALSE_POSITIVES` or `COVERAGE`
    low: float
    high: float  # Between which the rate of `simulate` must lie
    simulations: int
    simulate: Simulate
    # Of a discrete test: the greatest probability of rejecting that it can attain at the level.
    attainable: float | None = None


class Rate(NamedTuple):
    """What came out for a case."""

    case: Case
    rate: float
    simulations: int

    @property
    def error(self) -> float:
        """The binomial standard error of a rate at the nearer bound."""
        near = min((self.case.low, self.case.high), key=lambda bound: abs(bound - self.rate))
        return sqrt(near * (1 - near) / self.simulations)

    def ok(self, errors: float = 0.0) -> bool:
        """Whether the rate lies within the bounds, widened by so many binomial errors."""
        slack = errors * self.error
        return self.case.low - slack <= self.rate <= self.case.high + slack


def false_positives(
    name: str, simulate: Simulate, simulations: int, *, discrete: bool = False, attainable: float | None = None
) -> Case:
    """Return the case of a test whose null hypothesis is true; ``simulate`` says whether p is at most ``LEVEL``.

    A discrete or corrected test need only reach half of the level it can attain.
    """
    low = LEAST_OF_CONTINUOUS
    if attainable is not None:
        low = attainable / 2
    elif discrete:
        low = LEVEL / 2
    return Case(name, FALSE_POSITIVES, low, MOST_FALSE_POSITIVES, simulations, simulate, attainable)


def coverage(name: str, simulate: Simulate, simulations: int, *, conservative: bool = False) -> Case:
    """Return the case of a 95% interval; ``simulate`` says whether it holds the truth.

    A conservative interval may cover more, if the page says that it does.
    """
    return Case(name, COVERAGE, LEAST_COVERAGE, 1.0 if conservative else MOST_COVERAGE, simulations, simulate)


def rate(case: Case, simulations: int | None = None) -> Rate:
    """Simulate a case, with random numbers that depend on its name alone."""
    random = np.random.default_rng([SEED, crc32(case.name.encode())])
    times = simulations or case.simulations
    return Rate(case, sum(bool(case.simulate(random)) for _ in range(times)) / times, times)


def rates(cases: Sequence[Case], simulations: int | None = None, processes: int = 1) -> Iterator[Rate]:
    """Simulate all cases, and yield each in their order when it is done."""
    if processes == 1:
        yield from (rate(case, simulations) for case in cases)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(rate, cases, [simulations] * len(cases))


HEAD = "| case | claim | rate | bounds | attainable | ok |\n|---|---|---|---|---|---|"


def row(found: Rate) -> str:
    """Return a row of a table in Markdown, under ``HEAD``."""
    case = found.case
    attainable = "" if case.attainable is None else f"{case.attainable:.3f}"
    verdict = "yes" if found.ok() else "**no**"
    bounds = f"{case.low:.3f} to {case.high:.3f}"
    return f"| {case.name} | {case.claim} | {found.rate:.3f} | {bounds} | {attainable} | {verdict} |"
