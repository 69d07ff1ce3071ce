from math import hypot, log

import numpy as np
import pytest
import torch

from isotropy.cloud import read_cloud
from isotropy.intrinsic import twonn_mle
from isotropy.neighbors import BlockNeighbors, nearest_neighbors
from isotropy.report import measure
from isotropy.rows import Rows
from isotropy.score import BLOCKS


def rows(n, d=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def test_standard_errors_are_batch_means_of_logarithms():
    x, blocks = torch.from_numpy(rows(1000)), np.arange(1000) % BLOCKS
    result = BlockNeighbors(x, blocks, 11).score(twonn_mle)
    logs = [log(twonn_mle(nearest_neighbors(x[blocks == block], 11)).value) for block in range(BLOCKS)]
    assert result.value == pytest.approx(twonn_mle(nearest_neighbors(x, 11)).value)
    assert result.se == pytest.approx(result.value * np.std(logs, ddof=1) / BLOCKS**0.5)
    assert result.se == pytest.approx(hypot(*result.parts))


@pytest.mark.slow
def test_scores_are_given_at_standard_sizes_within_n():
    result = measure(read_cloud(Rows(rows(2100))), ["twonn", "levina_bickel"])
    for result_of_slug in result.values():
        assert list(result_of_slug.at_sizes) == [1000, 2000]
        assert result_of_slug.score.se is not None
        assert all(score.se is not None for score in result_of_slug.at_sizes.values())
    result = measure(read_cloud(Rows(rows(990))), ["twonn"])["twonn"]
    assert result.score.value is not None
    assert (result.score.se, result.score.parts, dict(result.at_sizes)) == (None, (), {})


def test_score_at_size_equals_score_of_first_rows():
    x, blocks = torch.from_numpy(rows(1100)), np.arange(1100) % BLOCKS
    all_rows, first_rows = BlockNeighbors(x, blocks, 11), BlockNeighbors(x[:1000], blocks[:1000], 11)
    assert (
        all_rows.scores_by_size(twonn_mle)[1000]
        == first_rows.score(twonn_mle)
        == first_rows.scores_by_size(twonn_mle)[1000]
    )
