"""Every measure of 50,000 points beside the two costs that no report is without: one product, one neighbour pass.

Run: python -m benchmarks.full_report
"""

from collections.abc import Callable

import torch

from benchmarks._rounds import interleave, machine, rounds_asked, table
from isotropy.cloud import NEIGHBOURS, PAIR_ROWS, read_cloud
from isotropy.neighbours import nearest_neighbours
from isotropy.report import measure
from isotropy.rows import Rows

N, D, CLASSES, THREADS = 50_000, 768, 10, 2


def main() -> None:
    """Print the medians of interleaved rounds and their ratios."""
    torch.set_num_threads(THREADS)
    generator = torch.Generator().manual_seed(0)
    x = 0.3 + torch.randn(N, D, generator=generator) * torch.rand(D, generator=generator)
    classes = [str(one) for one in torch.randint(CLASSES, (N,), generator=generator).tolist()]
    plain, labelled = Rows(x.numpy()), Rows(x.numpy(), classes)

    product_and_pass = "`X.T @ X` and the neighbour pass"
    ways: dict[str, Callable[[], object]] = {
        product_and_pass: lambda: (x.T @ x, nearest_neighbours(x[:PAIR_ROWS], NEIGHBOURS + 1)),
        "`X.T @ X` alone": lambda: x.T @ x,
        "full report": lambda: measure(read_cloud(plain)),
        f"full report, {CLASSES} labels": lambda: measure(read_cloud(labelled)),
    }
    times = interleave(ways, rounds_asked())

    print(machine("torch", "scipy", "scikit-learn"))
    print(f"{N:,} points of {D} dimensions, float32, {THREADS} threads, {len(times[product_and_pass])} rounds;")
    print(f"neighbours and pairs of {PAIR_ROWS:,} rows\n")
    print(table(times, base=product_and_pass))


if __name__ == "__main__":
    main()
