"""Simulate the statistics of findings on healthy clouds: writes the table ``isotropy/findings/limits.json``.

Run: OMP_NUM_THREADS=1 python -m benchmarks.finding_limits [--simulations N] > isotropy/findings/limits.json

Clouds are Gaussian, multivariate t with 5 degrees of freedom, and t5 in each coordinate, with equal variances and with
variances 1/i. Statistics that depend on the effective dimension have spectra with that effective dimension.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from typing import Any
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks._calibration import SEED
from benchmarks.outlier_limit import tail_point
from isotropy.catalog import Similarity
from isotropy.findings.dimensions import max_rogue_dimensions
from isotropy.findings.limits import find_largest_gap
from isotropy.findings.mixed_clouds import best_split, leading_directions
from isotropy.findings.nearest import QUERIES, find_nearest
from isotropy.findings.outlier_rows import MIN_TAIL
from isotropy.findings.spread import max_collapsed_directions, norm_spread

# Limits fall with the number of rows: larger clouds take the last one. Smaller clouds have few findings.
ROWS = (20, 45, 100, 300, 1000)
DIMENSIONS = (4, 16, 64, 256, 768)
SIMULATIONS = 100
MIN_SIMULATIONS = 16
MAX_NUMBERS = 1.2e7  # Coordinates in all simulations of a cell and kind: large clouds vary less, and take longer
TAIL_SHARE = 0.1  # Share of the largest values to which an exponential tail is fitted for the 99.9% point
KINDS = ("gaussian", "t5", "t5 coordinates")
DECAYS = (0.0, 1.0)
# Decays of spectra with a given effective dimension: the longer their tail, the more hubs they have.
SPREAD_DECAYS = (0.0, 0.3, 0.5, 0.7, 1.0)
MAX_DIMENSIONS = 1024  # Of a decaying spectrum with a given participation ratio

Points = NDArray[np.float32]


def draw_cloud(random: np.random.Generator, kind: str, n: int, variances: NDArray[np.float64]) -> Points:
    """Draw a healthy cloud [n, d] with mean 0."""
    d = len(variances)
    x = random.standard_t(MIN_TAIL, (n, d)) if kind == "t5 coordinates" else random.standard_normal((n, d))
    if kind == "t5":
        x /= np.sqrt(random.chisquare(MIN_TAIL, (n, 1)) / MIN_TAIL)
    points: Points = (x * np.sqrt(variances)).astype(np.float32)
    return points


def dimension_statistics(x: Points, random: np.random.Generator) -> Iterator[tuple[str, float]]:
    """Yield the statistics that depend on d."""
    n, d = x.shape
    points = torch.from_numpy(x).double()
    y = points - points.mean(0)
    yield "variance_gap", find_largest_gap(y.square().mean(0), max_rogue_dimensions(d)).excess
    mean = torch.from_numpy(random.standard_normal(d) * x.std())
    yield "energy_gap", find_largest_gap((points + mean).square().mean(0), max_rogue_dimensions(d)).excess
    products = y @ y.T if n < d else y.T @ y
    yield (
        "direction_gap",
        find_largest_gap(torch.linalg.eigvalsh(products).clamp(min=0), max_collapsed_directions(n, d)).excess,
    )
    center, directions = leading_directions(points)
    split = best_split((points - center) @ directions)
    yield "separation", 0.0 if split is None else split.separation


def spread_statistics(kind: str, x: Points) -> Iterator[tuple[str, float]]:
    """Yield the statistics that depend on the effective dimension."""
    points = torch.from_numpy(x)
    positions = torch.arange(len(x))
    similarities = {"hub_cosine": Similarity.COSINE}
    if kind == "gaussian":
        # In healthy t5 clouds too, the rows at the center are neighbors of nearly all others.
        similarities["hub_euclidean"] = Similarity.EUCLIDEAN
    for name, similarity in similarities.items():
        nearest = find_nearest(points[:QUERIES], positions[:QUERIES], [(points, positions)], similarity)
        yield name, float(nearest.shares()[1].max())
    yield "norm_spread_t5", norm_spread(points)


def variances_with(ratio: float, decay: float) -> NDArray[np.float64]:
    """Return variances i^-decay in the number of dimensions whose participation ratio is nearest to ``ratio``."""
    sizes = np.arange(1.0, MAX_DIMENSIONS + 1) ** -decay
    ratios = sizes.cumsum() ** 2 / (sizes**2).cumsum()
    return sizes[: int(np.abs(ratios - ratio).argmin()) + 1]


def cell(n: int, d: int, simulations: int) -> dict[str, float]:
    """Return the largest 99.9% point of each statistic over all kinds and spectra."""
    points: dict[str, float] = defaultdict(lambda: -np.inf)
    for kind, decay in product(KINDS, DECAYS):
        random = np.random.default_rng([SEED, crc32(f"{kind}, {decay}, {n} x {d}".encode())])
        values_by_name = defaultdict(list)
        variances = np.arange(1.0, d + 1) ** -decay
        for _ in range(simulations):
            for name, value in dimension_statistics(draw_cloud(random, kind, n, variances), random):
                values_by_name[name].append(value)
        for name, values in values_by_name.items():
            points[name] = max(points[name], tail_point(np.array(values), TAIL_SHARE))
    return dict(points) | spread_cell(n, d, simulations)


def spread_cell(n: int, ratio: float, simulations: int) -> dict[str, float]:
    """Return the largest 99.9% points of the statistics that depend on the effective dimension."""
    points: dict[str, float] = defaultdict(lambda: -np.inf)
    for kind, decay in product(("gaussian", "t5"), SPREAD_DECAYS):
        variances = variances_with(ratio, decay)
        if decay and len(variances) == MAX_DIMENSIONS:
            continue  # this spectrum needs more dimensions to have this ratio
        random = np.random.default_rng([SEED, crc32(f"{kind}, {decay}, {n} x {ratio} effective".encode())])
        values_by_name = defaultdict(list)
        for _ in range(simulations):
            for name, value in spread_statistics(kind, draw_cloud(random, kind, n, variances)):
                values_by_name[name].append(value)
        for name, values in values_by_name.items():
            points[name] = max(points[name], tail_point(np.array(values), TAIL_SHARE))
    return dict(points)


def main() -> None:
    """Print the table as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--simulations", type=int, default=SIMULATIONS, help="clouds of each kind in each cell, fewer of large ones"
    )
    simulations = parser.parse_args().simulations
    statistics: dict[str, list[list[float]]] = defaultdict(lambda: [[0.0] * len(DIMENSIONS) for _ in ROWS])
    for (i, n), (j, d) in product(enumerate(ROWS), enumerate(DIMENSIONS)):
        for name, value in cell(n, d, max(min(simulations, int(MAX_NUMBERS / (n * d))), MIN_SIMULATIONS)).items():
            statistics[name][i][j] = float(f"{value:.4g}")
        sys.stderr.write(f"{n} x {d}: { ({name: values[i][j] for name, values in statistics.items()}) }\n")
    table: dict[str, Any] = {"rows": ROWS, "dimensions": DIMENSIONS, "simulations": simulations}
    sys.stdout.write(json.dumps(table | {"statistics": dict(sorted(statistics.items()))}) + "\n")


if __name__ == "__main__":
    main()
