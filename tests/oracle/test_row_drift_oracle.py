"""Rows that move between two embeddings against definitions, closed forms and SciPy."""

import numpy as np
import pytest
import torch
from scipy.spatial import procrustes

from isotropy.alignment import AT_ONCE, alignment, row_drift
from isotropy.dealing import Slices


def pair(n, d, seed=0, noise=0.3):
    """Gaussian rows, and the same turned, scaled and moved, with noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    turn, _ = np.linalg.qr(rng.normal(size=(d, d)))
    return torch.from_numpy(x), torch.from_numpy(7 * x @ turn + 3 + noise * rng.normal(size=(n, d)))


def test_kept_neighbors_are_counted_by_definition():
    x, y = pair(60, 5, noise=3)
    found = row_drift(x, y, 40).kept.tolist()
    for row, share in enumerate(found):
        nearest = []
        for points in (x.numpy(), y.numpy()):
            unit = points / np.linalg.norm(points, axis=1, keepdims=True)
            order = np.argsort(-(unit[:40] @ unit[row]))
            nearest.append({*[one for one in order.tolist() if one != row][:10]})
        assert share == pytest.approx(len(nearest[0] & nearest[1]) / 10)


def test_the_mean_over_the_references_is_the_neighbor_overlap():
    n = AT_ONCE + 300
    x, y = pair(n, 8, noise=2)
    whole = alignment(x[:400], y[:400], Slices(400, 10).of(np.arange(400)))["neighbor_overlap"].value
    assert float(row_drift(x, y, 400).kept[:400].mean()) == pytest.approx(whole, abs=1e-9)


@pytest.mark.parametrize("dimensions", [6, 4])
def test_squared_residuals_add_up_to_that_of_procrustes(dimensions):
    x, y = pair(200, 6)
    padded = torch.nn.functional.pad(y[:, :dimensions], (0, 6 - dimensions))
    residual = procrustes(x.numpy(), padded.numpy())[2]
    found = row_drift(x, y[:, :dimensions], 200).residual
    assert float(found.square().mean()) == pytest.approx(2 * (1 - (1 - residual) ** 0.5), rel=1e-10)
    # Whichever is named first.
    assert row_drift(y[:, :dimensions], x, 200).residual.tolist() == pytest.approx(found.tolist(), abs=1e-6)


def test_rows_that_were_moved_are_those_that_moved_most():
    x, y = pair(900, 12, noise=0.1)
    moved = torch.arange(100, 120)
    y[moved] = y[moved.flip(0)] * -1
    found = row_drift(x, y, 900)
    assert set(found.residual.topk(20).indices.tolist()) == set(moved.tolist())
    others = torch.tensor([one for one in range(900) if one not in moved.tolist()])
    assert float(found.kept[moved].mean()) < 0.1
    assert float(found.kept[others].mean()) > 0.7


def test_what_is_turned_stays_and_what_is_unrelated_lands_anywhere():
    x, y = pair(500, 9, noise=0)
    found = row_drift(x, 1e30 * y, 500)
    assert float(found.residual.max()) < 1e-6
    unrelated = row_drift(x, pair(500, 9, seed=4)[0], 500)
    assert float(unrelated.residual.square().mean()) ** 0.5 == pytest.approx(2**0.5, abs=0.15)


def test_what_cannot_be_found_has_a_reason():
    x, y = pair(40, 5)
    found = row_drift(x, torch.ones(40, 3), 40)
    assert (found.residual, found.reason) == (None, "All rows of one embedding are equal.")
    wide = row_drift(torch.zeros(20, 2049), torch.zeros(20, 3), 20)
    assert wide.reason == "Residuals are found for at most 2,048 dimensions."
    with pytest.raises(ValueError, match="the same rows in both"):
        row_drift(x, y[:5], 5)
    with pytest.raises(ValueError, match="more than 10 reference rows"):
        row_drift(x, y, 10)
