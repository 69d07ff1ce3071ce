import numpy as np
import pytest

from workers.training.inference import TokenizedRows, draw_row_indices


@pytest.fixture
def rows():
    return TokenizedRows(dataset=None, token_counts=np.array([5, 3, 9, 1, 7]), collate=None)


def test_rows_are_drawn_within_token_budget(rows):
    for tokens in range(1, 30):
        drawn = draw_row_indices(rows.token_counts, tokens, seed=(0,))
        assert len(set(drawn)) == len(drawn)
        assert len(drawn) == 1 or rows.token_counts[drawn].sum() <= tokens
    assert len(draw_row_indices(rows.token_counts, 25, seed=(0,))) == 5
    small, large = (
        draw_row_indices(rows.token_counts, 9, seed=(3, 1)),
        draw_row_indices(rows.token_counts, 20, seed=(3, 1)),
    )
    assert list(large[: len(small)]) == list(small)
    assert len(draw_row_indices(rows.token_counts, 25, seed=(0,), max_rows=2)) == 2


def test_long_rows_come_first_and_draws_follow_seed_and_epoch(rows):
    assert list(rows.longest_first(np.array([0, 1, 2, 3]))) == [2, 0, 1, 3]
    lengths = np.ones(1000, dtype=np.int64)
    draws = [tuple(draw_row_indices(lengths, 20, seed)) for seed in ((0, 0), (0, 1), (1, 0))]
    assert len(set(draws)) == 3
