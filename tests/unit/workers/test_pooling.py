import torch

from app.db.models import Pooling
from workers.pooling import pool

STATES = torch.arange(24, dtype=torch.float32).reshape(2, 4, 3)


def test_padding_counts_nowhere_on_either_side():
    for start, real in ((0, [1, 1, 1, 0]), (1, [0, 1, 1, 1])):
        mask = torch.tensor([real, [1, 1, 1, 1]])
        assert pool(STATES, mask, Pooling.FIRST).tolist() == [STATES[0, start].tolist(), STATES[1, 0].tolist()]
        assert pool(STATES, mask, Pooling.LAST).tolist() == [STATES[0, start + 2].tolist(), STATES[1, 3].tolist()]
        mean = STATES[0, start : start + 3].mean(0)
        assert pool(STATES, mask, Pooling.MEAN).tolist() == [mean.tolist(), STATES[1].mean(0).tolist()]


def test_what_a_model_makes_of_padding_is_never_seen():
    states = STATES.clone()
    states[0, 3] = torch.nan
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])
    assert all(pool(states, mask, pooling).isfinite().all() for pooling in Pooling)


def test_one_token_is_first_mean_and_last():
    mask = torch.tensor([[0, 0, 1, 0], [0, 1, 0, 0]])
    for pooling in Pooling:
        assert torch.equal(pool(STATES, mask, pooling), torch.stack([STATES[0, 2], STATES[1, 1]]))
