"""Intrinsic dimension by TwoNN, from the points to the fit, beside scikit-dimension's.

Run: python -m benchmarks.twonn
"""

from collections.abc import Callable
from functools import partial

import torch
from skdim.id import TwoNN
from torch import Tensor

from benchmarks._rounds import interleave, machine, ratio, rounds_asked, table
from isotropy.intrinsic import twonn
from isotropy.neighbours import distinct_rows, nearest_neighbours

N, D, INTRINSIC, ONES, THREADS = 10_000, 384, 20, 3, 2


def curved(generator: torch.Generator) -> Tensor:
    """Points [N, D] of ``INTRINSIC`` dimensions, curved and with a little noise in all others."""
    latent = torch.randn(N, INTRINSIC, generator=generator) @ torch.randn(INTRINSIC, D, generator=generator)
    return latent.tanh() + 0.01 * torch.randn(N, D, generator=generator)


def tied(generator: torch.Generator) -> Tensor:
    """Points [N, D] of ``ONES`` ones and zeros else, which have only as many distances, so that very many tie."""
    places = torch.rand(N, D, generator=generator).topk(ONES).indices
    return torch.zeros(N, D).scatter_(1, places, 1.0)


def ours(x: Tensor) -> float | None:
    """Without duplicates, exact neighbours, regression: all that a report does; None where distances tie."""
    return twonn(nearest_neighbours(x[distinct_rows(x)], 2)).dimension.value


def theirs(x: Tensor) -> float:
    """All distances in blocks, each row of them sorted, regression."""
    return float(TwoNN().fit(x.numpy()).dimension_)


def main() -> None:
    """Print the medians of interleaved rounds, their ratios, and how far the dimensions differ."""
    torch.set_num_threads(THREADS)
    generator = torch.Generator().manual_seed(0)
    clouds = {"Gaussian": torch.randn(N, D, generator=generator), "curved": curved(generator)}
    points = {
        f"{name}, {dtype}": x.to(getattr(torch, dtype))
        for name, x in clouds.items()
        for dtype in ("float32", "float64")
    }
    ways: dict[str, Callable[[], object]] = {}
    for name, x in points.items():
        ways[f"Isoscope, {name}"] = partial(ours, x)
        ways[f"scikit-dimension, {name}"] = partial(theirs, x)
    ties = tied(generator)
    ways["Isoscope, three ones, float32"] = partial(ours, ties)
    product = f"`X @ X.T` in blocks, {next(iter(points))}"
    ways[product] = lambda: [block @ clouds["Gaussian"].T for block in torch.split(clouds["Gaussian"], 1000)]
    times = interleave(ways, rounds_asked())

    print(machine("torch", "scikit-dimension", "scikit-learn", "numpy"))
    print(f"{N:,} points of {D} dimensions, {THREADS} threads, {len(times[product])} rounds\n")
    print(table(times, base=product))
    print()
    for name, x in points.items():
        gain = ratio(times[f"scikit-dimension, {name}"], times[f"Isoscope, {name}"])
        dimension = ours(x)
        assert dimension is not None
        print(
            f"- {name}: {gain:.1f} times faster than scikit-dimension; dimension {dimension:.4f}, "
            f"relative difference {abs(dimension / theirs(x) - 1):.0e}."
        )
    slower = ratio(times["Isoscope, three ones, float32"], times["Isoscope, Gaussian, float32"])
    print(f"- three ones, float32, where distances tie: {slower:.1f} times the Gaussian cloud's.")


if __name__ == "__main__":
    main()
