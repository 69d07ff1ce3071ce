"""Time the intrinsic dimension by TwoNN, compared with scikit-dimension.

Run: python -m benchmarks.twonn
"""

from collections.abc import Callable
from functools import partial

import torch
from skdim.id import TwoNN
from torch import Tensor

from benchmarks._rounds import interleave, machine, ratio, requested_rounds, table
from isotropy.intrinsic import twonn
from isotropy.neighbors import distinct_rows, nearest_neighbors

N, D, INTRINSIC, ONES, THREADS = 10_000, 384, 20, 3, 2


def draw_curved(generator: torch.Generator) -> Tensor:
    """Return points [N, D] on a curved surface of ``INTRINSIC`` dimensions, with a little noise in all dimensions."""
    latent = torch.randn(N, INTRINSIC, generator=generator) @ torch.randn(INTRINSIC, D, generator=generator)
    return latent.tanh() + 0.01 * torch.randn(N, D, generator=generator)


def draw_tied(generator: torch.Generator) -> Tensor:
    """Return points [N, D] of ``ONES`` ones among zeros, which have only ``ONES`` different distances."""
    positions = torch.rand(N, D, generator=generator).topk(ONES).indices
    return torch.zeros(N, D).scatter_(1, positions, 1.0)


def dimension_by_isoscope(x: Tensor) -> float | None:
    """Return the dimension by exact neighbors of distinct rows, as in a report; None if distances tie."""
    return twonn(nearest_neighbors(x[distinct_rows(x)], 2)).dimension.value


def dimension_by_skdim(x: Tensor) -> float:
    """Return the dimension by scikit-dimension, which sorts all distances of each row."""
    return float(TwoNN().fit(x.numpy()).dimension_)


def main() -> None:
    """Print the medians of interleaved rounds, their ratios, and how far the dimensions differ."""
    torch.set_num_threads(THREADS)
    generator = torch.Generator().manual_seed(0)
    clouds = {"Gaussian": torch.randn(N, D, generator=generator), "curved": draw_curved(generator)}
    points = {
        f"{name}, {dtype}": x.to(getattr(torch, dtype))
        for name, x in clouds.items()
        for dtype in ("float32", "float64")
    }
    functions: dict[str, Callable[[], object]] = {}
    for name, x in points.items():
        functions[f"Isoscope, {name}"] = partial(dimension_by_isoscope, x)
        functions[f"scikit-dimension, {name}"] = partial(dimension_by_skdim, x)
    ties = draw_tied(generator)
    functions["Isoscope, three ones, float32"] = partial(dimension_by_isoscope, ties)
    product = f"`X @ X.T` in blocks, {next(iter(points))}"
    functions[product] = lambda: [block @ clouds["Gaussian"].T for block in torch.split(clouds["Gaussian"], 1000)]
    times = interleave(functions, requested_rounds())

    print(machine("torch", "scikit-dimension", "scikit-learn", "numpy"))
    print(f"{N:,} points of {D} dimensions, {THREADS} threads, {len(times[product])} rounds\n")
    print(table(times, base=product))
    print()
    for name, x in points.items():
        gain = ratio(times[f"scikit-dimension, {name}"], times[f"Isoscope, {name}"])
        dimension = dimension_by_isoscope(x)
        assert dimension is not None
        print(
            f"- {name}: {gain:.1f} times faster than scikit-dimension; dimension {dimension:.4f}, "
            f"relative difference {abs(dimension / dimension_by_skdim(x) - 1):.0e}."
        )
    slower = ratio(times["Isoscope, three ones, float32"], times["Isoscope, Gaussian, float32"])
    print(f"- three ones, float32, where distances tie: {slower:.1f} times the Gaussian cloud's.")


if __name__ == "__main__":
    main()
