import numpy as np
import pytest
import torch

from isotropy.rows import Sample


def drawn(n, size, cuts=(), seed=0):
    sample = Sample(size, 1, np.dtype(np.float64), seed)
    for rows in np.split(np.arange(n), cuts):
        sample.update(rows[:, None].astype(np.float64), rows)
    points, rows = sample.drawn_rows()
    assert points.squeeze(1).tolist() == rows.tolist()
    return rows


def test_rows_are_drawn_once_in_random_order_by_seed():
    complete = drawn(1000, 40)
    assert len(set(complete.tolist())) == 40
    torch.testing.assert_close(drawn(1000, 40, cuts=(3, 39, 41, 500)), complete)
    assert sorted(drawn(40, 40).tolist()) == list(range(40))
    assert drawn(40, 40).tolist() != list(range(40))
    assert sorted(drawn(25, 40).tolist()) == list(range(25))
    assert drawn(0, 40).tolist() == []
    assert drawn(0, 0).tolist() == []
    assert drawn(1000, 40, seed=1).tolist() != drawn(1000, 40, seed=2).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("head", [10, 3])
def test_every_row_is_equally_likely_in_sample_and_its_head(head):
    counts = torch.zeros(30)
    for seed in range(3000):
        counts[drawn(30, 10, cuts=(4, 20), seed=seed)[:head]] += 1
    expected = 3000 * head / 30
    assert (counts - expected).abs().max() < 5 * expected**0.5
