"""Requirements of a sweep's conclusion (significance level, seeds, values of λ), and Student's t distribution."""

from functools import lru_cache
from math import exp, factorial, inf, lgamma, log, log1p, pi
from statistics import NormalDist

SIGNIFICANCE_LEVEL = 0.05  # of every test
# Significance levels of the first two looks at results. Each later one is half the one before: all sum to under 0.05.
FIRST_LOOK_LEVEL, SECOND_LOOK_LEVEL = 0.04, 0.005
MAX_LOOKS = 6
# With fewer seeds, intervals cover too little: a bootstrap of two seeds covers 69%.
MIN_SEEDS = 3
MAX_FRACTION_TERMS = 10_000
FRACTION_TOLERANCE = 1e-15
TINY = 1e-300
# From this many degrees of freedom on, t is normal to double precision.
NORMAL_DEGREES = 1e7
# Heaviest tails for which block intervals cover 95%: independent t5 coordinates, by simulation.
BLOCK_KURTOSIS = 1.5
# A setting collapsed if at least this share of its runs, and this many, did.
COLLAPSED_SHARE, MIN_COLLAPSED_RUNS = 2 / 3, 2


def most_collapsed(n_collapsed: int, n_runs: int) -> bool:
    """Return whether so many runs of a setting collapsed that it counts as collapsed."""
    return n_collapsed >= max(MIN_COLLAPSED_RUNS, COLLAPSED_SHARE * n_runs)


def min_lambdas() -> int:
    """Return the minimum number of λ values at which p can be significant: with k values, p is at least 2 / k!."""
    return next(k for k in range(2, 20) if 2 / factorial(k) <= SIGNIFICANCE_LEVEL)


def look_level(look: int) -> float:
    """Return the significance level of a look at the results, numbered from 1: 0.04, 0.005, 0.0025 and so on."""
    return FIRST_LOOK_LEVEL if look == 1 else SECOND_LOOK_LEVEL / 2 ** (look - 2)


def two_sided_p(t: float, degrees: float) -> float:
    """Return the probability that |T| exceeds |t|, where T has Student's t distribution with ``degrees`` of freedom."""
    t = abs(t)
    if degrees >= NORMAL_DEGREES:
        return 2 * NormalDist().cdf(-t)
    square = t * t
    if square == inf:
        return 0.0
    # Use the smaller of x and 1 - x: the one near 1 has lost digits to rounding.
    x, complement = degrees / (degrees + square), square / (degrees + square)
    if square < 1:
        return 1 - incomplete_beta(complement, x, 0.5, degrees / 2)
    return incomplete_beta(x, complement, degrees / 2, 0.5)


@lru_cache(maxsize=4096)
def t_quantile(p: float, degrees: float) -> float:
    """Return the t that |T| exceeds with probability p: the half-width of an interval in standard errors."""
    low, high = 0.0, 1.0
    while two_sided_p(high, degrees) > p:
        low, high = high, 2 * high
    t = (low + high) / 2
    # Newton's method; a step that leaves the bracket is replaced by bisection.
    for _ in range(200):
        excess = two_sided_p(t, degrees) - p
        low, high = (t, high) if excess > 0 else (low, t)
        if degrees >= NORMAL_DEGREES:
            density = NormalDist().pdf(t)
        else:
            scale = lgamma((degrees + 1) / 2) - lgamma(degrees / 2) - log(degrees * pi) / 2
            density = exp(scale - (degrees + 1) / 2 * log1p(t * t / degrees))
        newton_t = t + excess / (2 * density)
        next_t = newton_t if low < newton_t < high else (low + high) / 2
        if abs(next_t - t) <= 1e-13 * t:
            return next_t
        t = next_t
    return t


def incomplete_beta(x: float, complement: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function at x = 1 - ``complement`` (Numerical Recipes 6.4, Lentz)."""
    if x <= 0:
        return 0.0
    if complement <= 0:
        return 1.0
    prefactor = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(complement))
    if x < (a + 1) / (a + b + 2):
        return prefactor * _beta_fraction(x, a, b) / a
    return 1 - prefactor * _beta_fraction(complement, b, a) / b


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1 / _avoid_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, MAX_FRACTION_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _avoid_zero(1 + term * d)
            c = _avoid_zero(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < FRACTION_TOLERANCE:
            break
    return value


def _avoid_zero(value: float) -> float:
    return value if abs(value) > TINY else TINY


def block_degrees(blocks: int) -> float:
    """Return the degrees of freedom of a standard error from blocks of rows.

    2 / degrees = 2 / (B - 1) + k / B for B blocks, where k is the excess kurtosis of the blocks' contributions, here
    BLOCK_KURTOSIS. Normal rows would have k = 0 and so B - 1 degrees of freedom; heavy tails have fewer.
    """
    return 2 / (2 / (blocks - 1) + BLOCK_KURTOSIS / blocks)
