"""Bars in dimension 0 of a batch and of a sample, beside gudhi.

Run: python -m benchmarks.barcode
"""

from collections.abc import Callable

import numpy as np
import torch
from gudhi.sklearn.rips_persistence import RipsPersistence
from numpy.typing import NDArray
from torch import Tensor

from benchmarks._rounds import interleave, machine, ratio, rounds_asked, table
from isotropy.topology import bar_entropy, barcode

SIZES, D, THREADS = (64, 1024), 768, 2
REPEATS = {64: 100, 1024: 2}  # Barcodes in one round: one of a batch takes less than a millisecond
RIPS = RipsPersistence(homology_dimensions=0, input_type="point cloud")


def gudhi_bars(points: NDArray[np.floating]) -> NDArray[np.float64]:
    """Deaths [n - 1] by gudhi's interface for scikit-learn, in dimension 0 alone; the last bar never ends."""
    deaths: NDArray[np.float64] = RIPS.fit_transform([points])[0][:-1, 1]
    return deaths


def gradient(x: Tensor) -> Tensor:
    """The gradient [n, d] of the entropy of the bars, as a training step takes it."""
    points = x.detach().requires_grad_()
    (of_points,) = torch.autograd.grad(bar_entropy(barcode(points)), points)
    return of_points


def repeated(way: Callable[[], object], times: int) -> Callable[[], None]:
    """The way, several times over."""

    def all_times() -> None:
        for _ in range(times):
            way()

    return all_times


def compare(x: Tensor) -> None:
    """Print the times of every way for points [n, d], by the round, and how far the bars differ."""
    n, points, dtype = len(x), x.numpy(), str(x.dtype).removeprefix("torch.")
    ours, gudhi = f"bars, {dtype}", f"gudhi, {dtype}"
    ways: dict[str, Callable[[], object]] = {
        ours: lambda: barcode(x),
        f"bars, their entropy and its gradient, {dtype}": lambda: gradient(x),
        gudhi: lambda: gudhi_bars(points),
    }
    times = interleave({name: repeated(way, REPEATS[n]) for name, way in ways.items()}, rounds_asked())
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
