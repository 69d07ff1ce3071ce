"""Two embeddings of the same rows against closed forms, definitions and SciPy."""

import numpy as np
import pytest
import torch
from scipy.spatial import procrustes

from app.core.evidence import block_degrees, quantile
from isotropy.alignment import alignment, cka, procrustes_residual
from isotropy.dealing import Slices

NOISE = 0.6


def random(seed=0):
    return np.random.default_rng(seed)


def pair(n, d, seed=0, noise=NOISE):
    """Gaussian rows, and the same turned, with noise: CKA is 1 / (1 + noise^2), the residual 1 less that."""
    rng = random(seed)
    x = rng.normal(size=(n, d))
    turn, _ = np.linalg.qr(rng.normal(size=(d, d)))
    return torch.from_numpy(x), torch.from_numpy(x @ turn + noise * rng.normal(size=(n, d)))


def blocks_of(n):
    return Slices(n, 10).of(np.arange(n))


def test_cka_is_the_mean_over_distinct_rows():
    """HSIC by its definition: kernels of pairs of pairs of distinct rows."""
    x, y = pair(8, 3)
    n = len(x)

    def hsic(a, b):
        K, L = (one @ one.T for one in (a, b))
        total, count = 0.0, 0
        for i in range(n):
            for j in range(n):
                for q in range(n):
                    for r in range(n):
                        if len({i, j, q, r}) == 4:
                            total += float(K[i, j] * (L[i, j] + L[q, r] - 2 * L[i, q]))
                            count += 1
        return total / count

    assert cka(x, y).value == pytest.approx(hsic(x, y) / (hsic(x, x) * hsic(y, y)) ** 0.5, rel=1e-10)


def test_cka_of_unrelated_rows_is_0_however_few_they_are():
    values = [
        cka(*(torch.from_numpy(random([seed, k]).normal(size=(60, 200))) for k in (0, 1))).value for seed in range(40)
    ]
    assert np.mean(values) == pytest.approx(0, abs=3 * np.std(values) / 40**0.5)
    assert np.std(values) < 0.05


def test_the_residual_is_that_of_scipy():
    x, y = pair(200, 6)
    assert procrustes_residual(x, y).value == pytest.approx(procrustes(x.numpy(), y.numpy())[2], rel=1e-12)
    # Another number of dimensions is one with columns of zeros.
    padded = torch.nn.functional.pad(y[:, :4], (0, 2))
    assert procrustes_residual(x, y[:, :4]).value == pytest.approx(procrustes(x.numpy(), padded.numpy())[2], rel=1e-12)


def test_what_is_moved_turned_and_scaled_is_the_same():
    x, _ = pair(300, 12)
    turn, _ = np.linalg.qr(random(5).normal(size=(12, 12)))
    found = alignment(x, 1e40 * (x @ torch.from_numpy(turn)), blocks_of(300))
    # Exactly, and without error: what differs is rounding.
    assert (found["cka"].value, found["cka"].se) == (1, 0)
    assert (found["procrustes"].value, found["procrustes"].se) == (0, 0)
    assert found["neighbor_overlap"].value > 0.999
    assert cka(x, x + 100).value == pytest.approx(1, abs=1e-9)


def test_overlap_of_unrelated_rows_is_that_of_chance():
    x, y = (torch.from_numpy(random(seed).normal(size=(500, 20))) for seed in (0, 1))
    assert alignment(x, y, blocks_of(500))["neighbor_overlap"].value == pytest.approx(10 / 499, abs=0.006)


@pytest.mark.parametrize(("slug", "truth"), [("cka", 1 / (1 + NOISE**2)), ("procrustes", 1 - 1 / (1 + NOISE**2))])
def test_intervals_cover_the_population(slug, truth):
    covered = 0
    for seed in range(40):
        x, y = pair(400, 12, seed)
        score = alignment(x, y, blocks_of(400))[slug]
        covered += abs(score.value - truth) <= quantile(0.05, block_degrees(len(score.parts))) * score.se
    assert covered >= 35


def test_too_few_rows_have_a_reason():
    x, y = pair(12, 3)
    assert all("at least 20 rows" in one.reason for one in alignment(x, y, blocks_of(12)).values())
    same = torch.ones(30, 3)
    found = alignment(same, same, blocks_of(30))
    assert (found["cka"].value, found["procrustes"].value) == (None, None)
    with pytest.raises(ValueError, match="the same rows in both"):
        alignment(x, y[:5], blocks_of(12))
