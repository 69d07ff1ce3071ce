"""What the data of a report's figures cost beside the report itself, of 50,000 points.

Run: python -m benchmarks.report_figures
"""

from collections.abc import Callable
from dataclasses import replace

import torch

from benchmarks._rounds import interleave, machine, rounds_asked, table
from isotropy.cloud import Cloud, read_cloud
from isotropy.projection import projection
from isotropy.report import measure
from isotropy.rows import Rows
from isotropy.sample_size import sample_size

N, D, THREADS = 50_000, 768, 2


def main() -> None:
    """Print the medians of interleaved rounds and their ratios."""
    torch.set_num_threads(THREADS)
    generator = torch.Generator().manual_seed(0)
    points = Rows((0.3 + torch.randn(N, D, generator=generator) * torch.rand(D, generator=generator)).numpy())
    read = read_cloud(points)
    measure(read)

    def fresh() -> Cloud:
        """A cloud that was read and of which nothing was asked: what one figure computes, the next would find."""
        return replace(read)

    report = "`read_cloud` and every measure"
    ways: dict[str, Callable[[], object]] = {
        report: lambda: measure(read_cloud(points)),
        "`read_cloud` alone": lambda: read_cloud(points),
        "`sample_size`": lambda: sample_size(fresh()),
        "`projection`": lambda: projection(fresh()),
    }
    times = interleave(ways, rounds_asked())

    print(machine("torch", "scipy"))
    print(f"{N:,} points of {D} dimensions, float32, {THREADS} threads, {len(times[report])} rounds\n")
    print(table(times, base=report))


if __name__ == "__main__":
    main()
