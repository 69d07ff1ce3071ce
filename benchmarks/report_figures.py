"""Time the data of a report's figures, compared with the report itself, for 50,000 points.

Run: python -m benchmarks.report_figures
"""

from collections.abc import Callable
from dataclasses import replace

import torch

from benchmarks._rounds import interleave, machine, requested_rounds, table
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
    cloud = read_cloud(points)
    measure(cloud)

    def copy_without_cache() -> Cloud:
        """Return a copy of the cloud, so that figures do not reuse each other's results."""
        return replace(cloud)

    report = "`read_cloud` and every measure"
    functions: dict[str, Callable[[], object]] = {
        report: lambda: measure(read_cloud(points)),
        "`read_cloud` alone": lambda: read_cloud(points),
        "`sample_size`": lambda: sample_size(copy_without_cache()),
        "`projection`": lambda: projection(copy_without_cache()),
    }
    times = interleave(functions, requested_rounds())

    print(machine("torch", "scipy"))
    print(f"{N:,} points of {D} dimensions, float32, {THREADS} threads, {len(times[report])} rounds\n")
    print(table(times, base=report))


if __name__ == "__main__":
    main()
