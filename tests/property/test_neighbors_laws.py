import pytest
import torch
from clouds import clouds, rotation, seeds
from hypothesis import given
from hypothesis import strategies as st

from isotropy import neighbors as module
from isotropy.hubness import hubness
from isotropy.intrinsic import levina_bickel, twonn, twonn_mle
from isotropy.neighbors import distinct_rows, nearest_neighbors

K = 4


def measure_values(x):
    neighbors = nearest_neighbors(x, K + 1)
    hubs = hubness(neighbors, K)
    scores = [twonn(neighbors).dimension, twonn_mle(neighbors), levina_bickel(neighbors, K)]
    return [score.value for score in [*scores, hubs.skewness, hubs.robin_hood, hubs.antihubs, hubs.greatest]]


large_clouds = clouds(min_n=K + 2, max_n=60)


@given(clouds(max_n=60), st.integers(1, 12), st.sampled_from([torch.bfloat16, torch.float32, torch.float64]))
def test_neighbors_match_brute_force_in_every_precision(x, k, precision):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "fast_precisions", lambda _: list(dict.fromkeys([precision, torch.float64])))
        ours = nearest_neighbors(x, k)
    distances = (x[:, None] - x).square().sum(2).sqrt().fill_diagonal_(torch.inf)
    nearest, indices = distances.sort(dim=1)
    k = min(k, len(x) - 1)
    torch.testing.assert_close(ours.distances, nearest[:, :k], rtol=1e-12, atol=0)
    assert torch.equal(ours.indices, indices[:, :k])


@pytest.mark.measure("twonn", "twonn_mle", "levina_bickel", "hubness")
@given(large_clouds, seeds, st.floats(-8, 8), st.floats(-100, 100))
def test_neighbor_measures_ignore_rotation_scale_and_shift(x, seed, power, shift):
    moved = 10**power * (x @ rotation(x.shape[1], seed) + shift)
    assert measure_values(moved) == pytest.approx(measure_values(x), rel=1e-7)


@given(large_clouds, st.randoms(use_true_random=False))
def test_neighbor_measures_ignore_order_and_constant_dimensions(x, random):
    order = random.sample(range(len(x)), len(x))
    padded = torch.cat([x, torch.full((len(x), 3), 7.5, dtype=x.dtype)], dim=1)
    for changed in (x[order], padded):
        assert measure_values(changed) == pytest.approx(measure_values(x), rel=1e-10)


@given(clouds(max_n=20), st.lists(st.integers(0, 19), min_size=1, max_size=40))
def test_distinct_rows_are_first_occurrences(x, picked):
    rows = [index % len(x) for index in picked]
    distinct = distinct_rows(x[rows])
    assert [rows[index] for index in distinct] == list(dict.fromkeys(rows))
