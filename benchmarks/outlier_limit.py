"""Simulate the statistic that finds outlier rows on healthy clouds, and how often it exceeds its limit.

Run: OMP_NUM_THREADS=1 python -m benchmarks.outlier_limit [--simulations N]
"""

import argparse
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks._calibration import SEED
from benchmarks._rounds import machine
from isotropy.findings.outlier_rows import LIMIT, SCANNED_PART, center_and_bulk, expected_beyond, surprise, tail_degrees

ROWS = (20, 200, 2000)
DIMENSIONS = (2, 8, 32)
SIMULATIONS = 2000
LEVEL = 0.001
# Share of the largest values to which an exponential tail is fitted for the 99.9% point, beyond which few lie.
TAIL_SHARE = 0.05
HEAD = "| cloud | n | d | 99.9% point | above the limit |\n|---|---|---|---|---|"


class Kind(NamedTuple):
    """A healthy distribution of rows."""

    name: str
    tail: int | None  # Degrees of freedom of multivariate Student's t; None for a Gaussian
    decay: float  # Variances are i^-decay


KINDS = (
    Kind("t5, equal variances", 5, 0),
    Kind("t5, variances 1/i", 5, 1),
    Kind("t7, variances 1/i", 7, 1),
    Kind("t10, variances 1/i", 10, 1),
    Kind("Gaussian, equal variances", None, 0),
    Kind("Gaussian, variances 1/i", None, 1),
)


def tail_point(values: NDArray[np.float64], tail_share: float) -> float:
    """Return the 99.9% point of values by an exponential tail fitted to the share of the largest."""
    base = float(np.quantile(values, 1 - tail_share))
    beyond = values[values > base]
    share = len(beyond) / len(values)  # less than ``tail_share`` if most values are 0
    return base if share <= LEVEL else base + float((beyond - base).mean()) * float(np.log(share / LEVEL))


class CaseValues(NamedTuple):
    """Values of the statistic for the clouds of a case."""

    kind: Kind
    n: int
    d: int
    values: NDArray[np.float64]

    @property
    def point(self) -> float:
        return tail_point(self.values, TAIL_SHARE)

    @property
    def share(self) -> float:
        """Return the share of clouds that exceed the limit."""
        return float((self.values > LIMIT).mean())

    def row(self) -> str:
        """Return a row of the table under ``HEAD``."""
        return f"| {self.kind.name} | {self.n} | {self.d} | {self.point:.1f} | {self.share:.4f} |"


def statistic(x: NDArray[np.float64]) -> float:
    """Return the statistic that the first round compares with the limit, for points [n, d] without duplicates."""
    points = torch.from_numpy(x)
    center, bulk = center_and_bulk(points)
    squares = (points - center).square().sum(1).numpy()
    ratios = squares / np.median(squares)
    farthest = np.sort(ratios)[::-1][: len(x) // SCANNED_PART]
    return float(surprise(expected_beyond(len(x), bulk, farthest, tail_degrees(ratios, bulk))).max())


def simulate_case(kind: Kind, n: int, d: int, simulations: int = SIMULATIONS) -> CaseValues:
    """Simulate a case, with random numbers that depend on its name alone."""
    random = np.random.default_rng([SEED, crc32(f"{kind.name}, {n} x {d}".encode())])
    scales = np.arange(1.0, d + 1) ** (-kind.decay / 2)
    values = np.empty(simulations)
    for i in range(simulations):
        x = random.standard_normal((n, d)) * scales
        if kind.tail is not None:
            x /= np.sqrt(random.chisquare(kind.tail, (n, 1)) / kind.tail)
        values[i] = statistic(x)
    return CaseValues(kind, n, d, values)


def cases(simulations: int = SIMULATIONS) -> Iterator[CaseValues]:
    """Simulate and yield every case."""
    for kind, n, d in product(KINDS, ROWS, DIMENSIONS):
        yield simulate_case(kind, n, d, simulations)


def main() -> None:
    """Print a table of all cases; exit with 1 if the 99.9% point of one is above the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=SIMULATIONS, help="clouds of each case")
    arguments = parser.parse_args()
    print(f"{machine('numpy', 'torch')}\n\n{HEAD}", flush=True)
    points = []
    for case in cases(arguments.simulations):
        print(case.row(), flush=True)
        points.append(case.point)
    print(f"\nlimit {LIMIT:g}, greatest 99.9% point {max(points):.1f}")
    raise SystemExit(max(points) > LIMIT)


if __name__ == "__main__":
    main()
