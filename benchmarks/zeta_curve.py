"""A zeta curve of 101 points beside one matrix product and beside 101 calls of the authors' package.

Run: python -m benchmarks.zeta_curve
"""

from collections.abc import Callable

import torch
from IsoScore.IsoScore import IsoScore_star
from torch import Tensor

from benchmarks._rounds import interleave, machine, ratio, rounds_asked, table
from isotropy.isoscore import ShrinkageCurve
from isotropy.spectrum import Moments, scaled_identity

N, D, POINTS, THREADS = 50_000, 768, 101, 2
ZETAS = torch.linspace(0, 1, POINTS, dtype=torch.float64)


def curve(x: Tensor) -> Tensor:
    """IsoScore* [101] of points [n, d] at every zeta, shrunk towards the scaled identity; moments and all."""
    moments = Moments(x.shape[1])
    moments.update(x)
    S = moments.covariance()
    return ShrinkageCurve.from_covariances(S, scaled_identity(S)).isoscore_star(ZETAS)


def one_call(x: Tensor, S_S: Tensor) -> Callable[[], Tensor]:
    """One of the package's calls that a curve needs one of for each point."""
    points = x.numpy()
    return lambda: IsoScore_star(points, S_S.to(x.dtype), 0.5)


def main() -> None:
    """Print the medians of interleaved rounds and their ratios."""
    torch.set_num_threads(THREADS)
    generator = torch.Generator().manual_seed(0)
    single = torch.randn(N, D, generator=generator) * torch.rand(D, generator=generator)
    double = single.double()
    S_S = scaled_identity(torch.cov(double.T))
    difference = (curve(single) - curve(double)).abs().max()

    product, products = "`X.T @ X`, float32", "`X.T @ X`, float64"
    ours, ours_double = f"curve of {POINTS} points, float32", f"curve of {POINTS} points, float64"
    call, call_double = "one call of IsoScore 2.0.1, float32", "one call of IsoScore 2.0.1, float64"
    ways: dict[str, Callable[[], object]] = {
        product: lambda: single.T @ single,
        products: lambda: double.T @ double,
        ours: lambda: curve(single),
        ours_double: lambda: curve(double),
        call: one_call(single, S_S),
        call_double: one_call(double, S_S),
    }
    times = interleave(ways, rounds_asked())

    print(machine("torch", "IsoScore"))
    print(f"{N:,} points of {D} dimensions, {THREADS} threads, {len(times[product])} rounds\n")
    print(table(times, base=product))
    print()
    for name, own in ((call, ours), (call_double, ours_double)):
        gain = POINTS * ratio(times[name], times[own])
        print(f"- {own}: {gain:.0f} times faster than {POINTS} calls, taken as {POINTS} times one.")
    print(f"- The float64 curve takes {ratio(times[ours_double], times[products]):.2f} of a float64 product.")
    print(f"- float32 and float64 differ by {float(difference):.0e} at most.")


if __name__ == "__main__":
    main()
