"""Time a zeta curve of 101 points, compared with a matrix product and with 101 calls of the authors' package.

Run: python -m benchmarks.zeta_curve
"""

from collections.abc import Callable

import torch
from IsoScore.IsoScore import IsoScore_star
from torch import Tensor

from benchmarks._rounds import interleave, machine, ratio, requested_rounds, table
from isotropy.isoscore import ShrinkageCurve
from isotropy.spectrum import Moments, scaled_identity

N, D, POINTS, THREADS = 50_000, 768, 101, 2
ZETAS = torch.linspace(0, 1, POINTS, dtype=torch.float64)


def compute_curve(x: Tensor) -> Tensor:
    """Return IsoScore* [101] of points [n, d] at every zeta, shrunk toward the scaled identity."""
    moments = Moments(x.shape[1])
    moments.update(x)
    S = moments.covariance()
    return ShrinkageCurve.from_covariances(S, scaled_identity(S)).isoscore_star(ZETAS)


def make_call(x: Tensor, S_S: Tensor) -> Callable[[], Tensor]:
    """Return a function that computes one point of a curve by the authors' package."""
    points = x.numpy()
    return lambda: IsoScore_star(points, S_S.to(x.dtype), 0.5)


def main() -> None:
    """Print the medians of interleaved rounds and their ratios."""
    torch.set_num_threads(THREADS)
    generator = torch.Generator().manual_seed(0)
    single = torch.randn(N, D, generator=generator) * torch.rand(D, generator=generator)
    double = single.double()
    S_S = scaled_identity(torch.cov(double.T))
    difference = (compute_curve(single) - compute_curve(double)).abs().max()

    product, product_double = "`X.T @ X`, float32", "`X.T @ X`, float64"
    ours, ours_double = f"curve of {POINTS} points, float32", f"curve of {POINTS} points, float64"
    call, call_double = "one call of IsoScore 2.0.1, float32", "one call of IsoScore 2.0.1, float64"
    functions: dict[str, Callable[[], object]] = {
        product: lambda: single.T @ single,
        product_double: lambda: double.T @ double,
        ours: lambda: compute_curve(single),
        ours_double: lambda: compute_curve(double),
        call: make_call(single, S_S),
        call_double: make_call(double, S_S),
    }
    times = interleave(functions, requested_rounds())

    print(machine("torch", "IsoScore"))
    print(f"{N:,} points of {D} dimensions, {THREADS} threads, {len(times[product])} rounds\n")
    print(table(times, base=product))
    print()
    for package_call, curve in ((call, ours), (call_double, ours_double)):
        gain = POINTS * ratio(times[package_call], times[curve])
        print(f"- {curve}: {gain:.0f} times faster than {POINTS} calls, taken as {POINTS} times one.")
    print(f"- The float64 curve takes {ratio(times[ours_double], times[product_double]):.2f} of a float64 product.")
    print(f"- float32 and float64 differ by {float(difference):.0e} at most.")


if __name__ == "__main__":
    main()
