from itertools import permutations

import numpy as np
import pytest
import torch
from scipy.spatial import procrustes

from app.core.evidence import block_degrees, t_quantile
from isotropy.alignment import ROWS_AT_ONCE, alignment, procrustes_residual, row_drift
from isotropy.rows import deal_slices
from tests.points import random

NOISE = 0.6


def pair(n, d, seed=0, noise=NOISE):
    """Return Gaussian rows and a noisy rotation: CKA is 1 / (1 + noise^2), the residual 1 minus that."""
    rng = random(seed)
    x = rng.normal(size=(n, d))
    turn, _ = np.linalg.qr(rng.normal(size=(d, d)))
    return torch.from_numpy(x), torch.from_numpy(x @ turn + noise * rng.normal(size=(n, d)))


def blocks_of(n):
    return deal_slices(np.arange(n), n, 10)


def test_cka_averages_over_distinct_rows():
    x, y = pair(20, 3)

    def hsic(a, b):
        K, L = ((entry @ entry.T).tolist() for entry in (a, b))
        terms = [K[i][j] * (L[i][j] + L[q][r] - 2 * L[i][q]) for i, j, q, r in permutations(range(20), 4)]
        return sum(terms) / len(terms)

    expected = hsic(x, y) / (hsic(x, x) * hsic(y, y)) ** 0.5
    assert alignment(x, y, blocks_of(20))["cka"].value == pytest.approx(expected, rel=1e-10)


def test_cka_of_few_unrelated_rows_is_unbiased():
    clouds = [[torch.from_numpy(random([seed, k]).normal(size=(60, 200))) for k in (0, 1)] for seed in range(40)]
    values = [alignment(*pair, blocks_of(60))["cka"].value for pair in clouds]
    assert np.mean(values) == pytest.approx(0, abs=3 * np.std(values) / 40**0.5)
    assert np.std(values) < 0.05


def test_procrustes_residual_matches_scipy():
    x, y = pair(200, 6)
    assert procrustes_residual(x, y).value == pytest.approx(procrustes(x.numpy(), y.numpy())[2], rel=1e-12)
    # Missing dimensions count as columns of zeros.
    padded = torch.nn.functional.pad(y[:, :4], (0, 2))
    assert procrustes_residual(x, y[:, :4]).value == pytest.approx(procrustes(x.numpy(), padded.numpy())[2], rel=1e-12)


def test_similar_clouds_align_exactly_and_unrelated_by_chance():
    x, _ = pair(300, 12)
    turn, _ = np.linalg.qr(random(5).normal(size=(12, 12)))
    drift = alignment(x, 1e40 * (x @ torch.from_numpy(turn)), blocks_of(300))
    # Exact values: differences are rounding.
    assert (drift["cka"].value, drift["cka"].se) == (1, 0)
    assert (drift["procrustes"].value, drift["procrustes"].se) == (0, 0)
    assert drift["neighbor_overlap"].value > 0.999
    assert alignment(x, x + 100, blocks_of(300))["cka"].value == 1
    x, y = (torch.from_numpy(random(seed).normal(size=(500, 20))) for seed in (0, 1))
    assert alignment(x, y, blocks_of(500))["neighbor_overlap"].value == pytest.approx(10 / 499, abs=0.006)


def test_neighbor_overlap_tolerates_rounding_of_copies():
    x, noise = (torch.from_numpy(random(seed).normal(size=(500, 20))) for seed in (0, 1))
    x[350:] = x[0]
    again = x + 1e-7 * noise
    assert alignment(x, again, blocks_of(500))["neighbor_overlap"].value > 0.999
    assert float(row_drift(x + 1e-7 * noise.flip(0), again, 400).neighbors_kept.min()) > 0.85
    # Rows that are copies in only one cloud are not the same.
    copies = torch.ones_like(x)
    copies[0] = -1
    assert alignment(x, copies, blocks_of(500))["neighbor_overlap"].value < 0.1
    assert alignment(x, x[torch.from_numpy(random(2).permutation(500))], blocks_of(500))["neighbor_overlap"].value < 0.5


def test_intervals_cover_population():
    truths = {"cka": 1 / (1 + NOISE**2), "procrustes": 1 - 1 / (1 + NOISE**2)}
    covered = dict.fromkeys(truths, 0)
    for seed in range(40):
        scores = alignment(*pair(400, 12, seed), blocks_of(400))
        for slug, truth in truths.items():
            half_width = t_quantile(0.05, block_degrees(len(scores[slug].parts))) * scores[slug].se
            covered[slug] += abs(scores[slug].value - truth) <= half_width
    assert min(covered.values()) >= 35, covered


def test_undefined_alignments_have_reasons():
    x, y = (torch.from_numpy(random(seed).normal(size=(128, 33))) for seed in (0, 1))
    drift = alignment(x, y, blocks_of(128))["procrustes"]
    assert drift.value < 0.99
    assert (drift.se, drift.parts) == (None, ())
    assert "4 rows per dimension" in drift.reason
    # The rotation has the smaller number of dimensions.
    enough = alignment(x, y[:, :32], blocks_of(128))["procrustes"]
    assert (enough.reason, enough.se > 0) == (None, True)
    same = alignment(x, 2 * x, blocks_of(128))["procrustes"]
    assert (same.value, same.se) == (0, None)
    assert "4 rows per dimension" in same.reason
    x, y = pair(12, 3)
    assert all("At least 20 shared rows" in entry.reason for entry in alignment(x, y, blocks_of(12)).values())
    x, equal = x.repeat(3, 1), torch.tensor([[0.1, 0.7, 1.0]]).repeat(36, 1)
    for clouds in ((equal, equal), (x, equal), (equal, x)):
        reasons = {score.reason for score in alignment(*clouds, blocks_of(36)).values()}
        assert reasons == {"All rows of one embedding are equal."}
    with pytest.raises(ValueError, match="Expected as many rows in x, y and blocks"):
        alignment(x, y[:5], blocks_of(12))


def moved_pair(n, d, seed=0, noise=0.3):
    x, y = pair(n, d, seed, noise / 7)
    return x, 7 * y + 3


def test_row_drift_counts_kept_neighbors():
    x, y = moved_pair(60, 5, noise=3)
    drift = row_drift(x, y, 40).neighbors_kept.tolist()
    for row, share in enumerate(drift):
        nearest = []
        for points in (x.numpy(), y.numpy()):
            unit = points / np.linalg.norm(points, axis=1, keepdims=True)
            order = np.argsort(-(unit[:40] @ unit[row]))
            nearest.append({*[entry for entry in order.tolist() if entry != row][:10]})
        assert share == pytest.approx(len(nearest[0] & nearest[1]) / 10)
    n = ROWS_AT_ONCE + 300
    x, y = moved_pair(n, 8, noise=2)
    overlap = alignment(x[:400], y[:400], deal_slices(np.arange(400), 400, 10))["neighbor_overlap"].value
    assert float(row_drift(x, y, 400).neighbors_kept[:400].mean()) == pytest.approx(overlap, abs=1e-9)


@pytest.mark.parametrize("dimensions", [6, 4])
def test_row_residuals_sum_to_procrustes_residual(dimensions):
    x, y = moved_pair(200, 6)
    padded = torch.nn.functional.pad(y[:, :dimensions], (0, 6 - dimensions))
    residual = procrustes(x.numpy(), padded.numpy())[2]
    drift = row_drift(x, y[:, :dimensions], 200).residual
    assert float(drift.square().mean()) == pytest.approx(2 * (1 - (1 - residual) ** 0.5), rel=1e-10)
    # Symmetric in its arguments.
    assert row_drift(y[:, :dimensions], x, 200).residual.tolist() == pytest.approx(drift.tolist(), abs=1e-6)


def test_moved_rows_have_largest_drift():
    x, y = moved_pair(900, 12, noise=0.1)
    moved = torch.arange(100, 120)
    y[moved] = y[moved.flip(0)] * -1
    drift = row_drift(x, y, 900)
    assert set(drift.residual.topk(20).indices.tolist()) == set(moved.tolist())
    stationary = torch.tensor([entry for entry in range(900) if entry not in moved.tolist()])
    assert float(drift.neighbors_kept[moved].mean()) < 0.1
    assert float(drift.neighbors_kept[stationary].mean()) > 0.7


def test_row_drift_of_rotated_and_unrelated_rows():
    x, y = moved_pair(500, 9, noise=0)
    drift = row_drift(x, 1e30 * y, 500)
    assert float(drift.residual.max()) < 1e-6
    unrelated = row_drift(x, moved_pair(500, 9, seed=4)[0], 500)
    assert float(unrelated.residual.square().mean()) ** 0.5 == pytest.approx(2**0.5, abs=0.15)
    x, y = moved_pair(40, 5)
    drift = row_drift(x, torch.ones(40, 3), 40)
    assert (drift.residual, drift.reason) == (None, "All rows of one embedding are equal.")
    wide = row_drift(torch.zeros(20, 2049), torch.zeros(20, 3), 20)
    assert wide.reason == "Residuals are computed for at most 2,048 dimensions."
    with pytest.raises(ValueError, match="the same number of rows in both"):
        row_drift(x, y[:5], 5)
    with pytest.raises(ValueError, match="more than 10 reference rows"):
        row_drift(x, y, 10)
