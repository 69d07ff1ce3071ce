"""Time every measure of a cloud, compared with products that any report needs: `X.T @ X` and half of `X_s @ X_s.T`.

Run: python -m benchmarks.full_report [--points 20000x4096 ...] [--labels]

If other work shares the cores, set ``CLOCK=cpu THREADS=1`` to compare processor time.
"""

import argparse
import resource
from collections.abc import Callable
from multiprocessing import get_context

import torch

from benchmarks._rounds import interleave, machine, requested_rounds, requested_threads, table
from isotropy.cloud import PAIR_ROWS, read_cloud
from isotropy.pairs import measure_euclidean_pairs
from isotropy.report import measure
from isotropy.rows import Rows

POINTS = ("50000x768", "50000x1536", "20000x4096")
NEIGHBORS, CLASSES = 11, 10
BLOCK_ROWS = 1000
BASE = "`X.T @ X` and half of `X_s @ X_s.T`"


def main() -> None:
    """Print the medians of interleaved rounds and their ratios, and the memory of one report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", nargs="+", default=POINTS, metavar="NxD")
    parser.add_argument("--labels", action="store_true", help=f"measure with {CLASSES} labels too")
    arguments = parser.parse_args()
    threads = requested_threads()
    torch.set_num_threads(threads)
    print(machine("torch", "scipy", "scikit-learn"))
    for shape in arguments.points:
        n, d = map(int, shape.split("x"))
        with get_context("spawn").Pool(1) as pool:
            peak = pool.apply(measure_peak_memory, (n, d, threads))
        times = interleave(make_functions(draw_points(n, d), labels=arguments.labels), requested_rounds())
        print(f"\n{n:,} points of {d} dimensions, float32, {threads} threads, {len(times[BASE])} rounds;")
        print(f"the sample X_s has {min(n, PAIR_ROWS):,} rows; one report takes {peak:.2f} GB, the points among it\n")
        print(table(times, base=BASE))


def draw_points(n: int, d: int) -> torch.Tensor:
    """Return a Gaussian cloud [n, d] with unequal variances and a mean that is not 0."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, d, generator=generator).mul_(torch.rand(d, generator=generator)).add_(0.3)


def make_functions(x: torch.Tensor, *, labels: bool) -> dict[str, Callable[[], object]]:
    """Return the functions to time, by name."""
    sample = x[:PAIR_ROWS]
    products = torch.empty(BLOCK_ROWS, len(sample))

    def multiply() -> None:
        x.T @ x
        for start in range(0, len(sample) // 2, BLOCK_ROWS):
            torch.mm(sample[start : start + BLOCK_ROWS], sample.T, out=products)

    functions: dict[str, Callable[[], object]] = {
        BASE: multiply,
        "`X.T @ X` alone": lambda: x.T @ x,
        "neighbors and uniformity of the sample": lambda: measure_euclidean_pairs(sample, NEIGHBORS),
        "`read_cloud` alone": lambda: read_cloud(Rows(x.numpy())),
        "full report": lambda: measure(read_cloud(Rows(x.numpy()))),
    }
    if labels:
        classes = [str(label) for label in torch.randint(CLASSES, (len(x),)).tolist()]
        functions[f"full report, {CLASSES} labels"] = lambda: measure(read_cloud(Rows(x.numpy(), classes)))
    return functions


def measure_peak_memory(n: int, d: int, threads: int) -> float:
    """Measure a cloud and return the peak memory of this process in GB."""
    torch.set_num_threads(threads)
    measure(read_cloud(Rows(draw_points(n, d).numpy())))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


if __name__ == "__main__":
    main()
