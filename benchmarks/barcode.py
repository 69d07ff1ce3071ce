"""Time the barcode (H0) of a batch and of a sample, compared with gudhi.

Run: python -m benchmarks.barcode
"""

from collections.abc import Callable

import numpy as np
import torch
from gudhi.sklearn.rips_persistence import RipsPersistence
from numpy.typing import NDArray
from torch import Tensor

from benchmarks._rounds import interleave, machine, ratio, requested_rounds, table
from isotropy.topology import bar_entropy, barcode

SIZES, D, THREADS = (64, 1024), 768, 2
REPEATS = {64: 100, 1024: 2}  # Barcodes per round, by number of points
RIPS = RipsPersistence(homology_dimensions=0, input_type="point cloud")


def gudhi_bars(points: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the ends [n - 1] of the bars in dimension 0 by gudhi, without the infinite bar."""
    deaths: NDArray[np.float64] = RIPS.fit_transform([points])[0][:-1, 1]
    return deaths


def entropy_gradient(x: Tensor) -> Tensor:
    """Return the gradient [n, d] of the entropy of the bars, as in a training step."""
    points = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(bar_entropy(barcode(points)), points)
    return gradient


def repeat(function: Callable[[], object], times: int) -> Callable[[], None]:
    """Return a function that calls ``function`` several times."""

    def repeated() -> None:
        for _ in range(times):
            function()

    return repeated


def compare(x: Tensor) -> None:
    """Print the times of all functions for points [n, d], and the largest difference of the bars."""
    n, points, dtype = len(x), x.numpy(), str(x.dtype).removeprefix("torch.")
    ours, gudhi = f"bars, {dtype}", f"gudhi, {dtype}"
    functions: dict[str, Callable[[], object]] = {
        ours: lambda: barcode(x),
        f"bars, their entropy and its gradient, {dtype}": lambda: entropy_gradient(x),
        gudhi: lambda: gudhi_bars(points),
    }
    times = interleave({name: repeat(function, REPEATS[n]) for name, function in functions.items()}, requested_rounds())
    difference = np.abs(barcode(x.double()).numpy() / np.sort(gudhi_bars(points.astype(np.float64))) - 1).max()
    print(f"{n:,} points of {D} dimensions, {len(times[ours])} rounds of {REPEATS[n]}\n")
    print(table(times, base=gudhi))
    print(f"\n- {1 / ratio(times[ours], times[gudhi]):.1f} times as fast as gudhi.")
    print(f"- The float64 bars differ from gudhi's by {difference:.0e} of a bar at most.\n")


def main() -> None:
    """Print the medians of interleaved rounds and their ratios, by size and dtype."""
    torch.set_num_threads(THREADS)
    generator = torch.Generator().manual_seed(0)
    print(machine("torch", "gudhi"))
    print(f"{THREADS} threads\n")
    for n in SIZES:
        single = torch.randn(n, D, generator=generator)
        compare(single)
        compare(single.double())


if __name__ == "__main__":
    main()
