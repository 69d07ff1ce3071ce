"""Hypothesis strategies: clouds of points, some with their spectrum known in closed form."""

import torch
from hypothesis import strategies as st

seeds = st.integers(0, 2**32 - 1)


def rotation(d, seed):
    q, _ = torch.linalg.qr(torch.randn(d, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)))
    return q


@st.composite
def clouds(draw, min_n=2, max_n=30, min_d=2, max_d=12):
    n, d = draw(st.integers(min_n, max_n)), draw(st.integers(min_d, max_d))
    spreads = draw(st.lists(st.floats(0.1, 10), min_size=d, max_size=d))
    offset = draw(st.floats(-100, 100))
    noise = torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(draw(seeds)))
    return offset + noise * torch.tensor(spreads, dtype=torch.float64) @ rotation(d, draw(seeds))


@st.composite
def solved_clouds(draw, equal=False):
    """A cloud and the eigenvalues of its covariance, float64 [d], largest first.

    The points are mean ± sqrt(v_i) q_i along k of d orthonormal directions q_i: n = 2k may be below d.
    """
    d = draw(st.integers(2, 12))
    k = draw(st.integers(1, d))
    sizes = [1.0] * k if equal else draw(st.lists(st.floats(1e-3, 1e3), min_size=k, max_size=k))
    variances = torch.tensor(sorted(sizes, reverse=True), dtype=torch.float64)
    arms = variances.sqrt()[:, None] * rotation(d, draw(seeds))[:k]
    points = draw(st.floats(-10, 10)) + torch.cat([arms, -arms])
    spectrum = torch.zeros(d, dtype=torch.float64)
    spectrum[:k] = 2 * variances / (2 * k - 1)
    return points, spectrum
