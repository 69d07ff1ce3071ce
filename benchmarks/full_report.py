"""Every measure of a cloud beside what no such report is without: one product, and half of that of the sample's rows.

Run: python -m benchmarks.full_report [--points 20000x4096 ...] [--labels]

Where other work shares the cores, ``CLOCK=cpu THREADS=1`` compares seconds of the processor.
"""

import argparse
import resource
from collections.abc import Callable
from multiprocessing import get_context

import torch

from benchmarks._rounds import interleave, machine, rounds_asked, table, threads_asked
from isotropy.cloud import PAIR_ROWS, read_cloud
from isotropy.pairs import measure_euclidean_pairs
from isotropy.report import measure
from isotropy.rows import Rows

POINTS = ("50000x768", "50000x1536", "20000x4096")
NEIGHBOURS, CLASSES = 11, 10
BLOCK_ROWS = 1000
LEAST = "`X.T @ X` and half of `X_s @ X_s.T`"


def main() -> None:
    """Print the medians of interleaved rounds and their ratios, and the memory of one report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", nargs="+", default=POINTS, metavar="NxD")
    parser.add_argument("--labels", action="store_true", help=f"measure with {CLASSES} labels too")
    asked = parser.parse_args()
    threads = threads_asked()
    torch.set_num_threads(threads)
    print(machine("torch", "scipy", "scikit-learn"))
    for shape in asked.points:
        n, d = map(int, shape.split("x"))
        with get_context("spawn").Pool(1) as pool:
            peak = pool.apply(peak_of_report, (n, d, threads))
        times = interleave(ways(points(n, d), labels=asked.labels), rounds_asked())
        print(f"\n{n:,} points of {d} dimensions, float32, {threads} threads, {len(times[LEAST])} rounds;")
        print(f"the sample X_s has {min(n, PAIR_ROWS):,} rows; one report takes {peak:.2f} GB, the points among it\n")
        print(table(times, base=LEAST))


def points(n: int, d: int) -> torch.Tensor:
    """The cloud: Gaussian, of unequal variances, beside the origin."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, d, generator=generator).mul_(torch.rand(d, generator=generator)).add_(0.3)


def ways(x: torch.Tensor, *, labels: bool) -> dict[str, Callable[[], object]]:
    """What is timed, by its name."""
    sample = x[:PAIR_ROWS]
    products = torch.empty(BLOCK_ROWS, len(sample))

    def least() -> None:
        x.T @ x
        for start in range(0, len(sample) // 2, BLOCK_ROWS):
            torch.mm(sample[start : start + BLOCK_ROWS], sample.T, out=products)

    found: dict[str, Callable[[], object]] = {
        LEAST: least,
        "`X.T @ X` alone": lambda: x.T @ x,
        "neighbors and uniformity of the sample": lambda: measure_euclidean_pairs(sample, NEIGHBOURS),
        "`read_cloud` alone": lambda: read_cloud(Rows(x.numpy())),
        "full report": lambda: measure(read_cloud(Rows(x.numpy()))),
    }
    if labels:
        classes = [str(one) for one in torch.randint(CLASSES, (len(x),)).tolist()]
        found[f"full report, {CLASSES} labels"] = lambda: measure(read_cloud(Rows(x.numpy(), classes)))
    return found


def peak_of_report(n: int, d: int, threads: int) -> float:
    """The most memory, in GB, that a process of its own held while it measured such a cloud."""
    torch.set_num_threads(threads)
    measure(read_cloud(Rows(points(n, d).numpy())))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


if __name__ == "__main__":
    main()
