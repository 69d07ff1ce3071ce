import pytest
import torch
from clouds import clouds, rotation, seeds
from hypothesis import given
from hypothesis import strategies as st

from isotropy import neighbors as module
from isotropy.clusters import silhouette, simplified_silhouette
from isotropy.hubness import hubness
from isotropy.intrinsic import levina_bickel, twonn, twonn_mle
from isotropy.isoscore import isoscore
from isotropy.labels import score_by_label
from isotropy.neighbors import distinct_rows, nearest_neighbors
from isotropy.prominence import prominent_bars, prominent_mask
from isotropy.score import Score
from isotropy.topology import barcode, persistent_entropy

lengths = st.lists(st.floats(0.01, 100), min_size=2, max_size=40).map(lambda bars: torch.tensor(bars).double())


def shuffle(seed, n):
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed))


@given(clouds(), seeds, st.floats(-100, 100), st.sampled_from([1e-9, 0.3, 1.0, 7.0, 1e9]))
def test_bars_scale_with_points_and_entropy_is_invariant(x, seed, shift, scale):
    moved = scale * (x @ rotation(x.shape[1], seed) + shift)[shuffle(seed, len(x))]
    bars = barcode(x)
    torch.testing.assert_close(barcode(moved), scale * bars, rtol=1e-9, atol=1e-11 * scale)
    if len(x) > 2:
        entropy = persistent_entropy(bars).value
        assert persistent_entropy(barcode(scale * x)).value == pytest.approx(entropy, rel=1e-9)


@given(clouds(), seeds)
def test_duplicate_point_adds_bar_of_length_zero(x, seed):
    again = torch.cat([x, x[shuffle(seed, len(x))[:1]]])
    torch.testing.assert_close(barcode(again), torch.cat([torch.zeros(1).double(), barcode(x)]), rtol=1e-12, atol=0)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30), seeds, st.integers(1, 9))
def test_bars_of_points_on_line_are_gaps(gaps, seed, d):
    along = torch.tensor([0.0, *gaps], dtype=torch.float64).cumsum(0)[shuffle(seed, len(gaps) + 1)]
    line = along[:, None] * rotation(d, seed)[0]
    torch.testing.assert_close(barcode(line), torch.tensor(sorted(gaps)).double(), rtol=1e-6, atol=1e-10)


@given(lengths, seeds, st.sampled_from([1e-12, 0.5, 3.0, 1e12]))
def test_prominence_ignores_order_and_scale(bars, seed, scale):
    order = shuffle(seed, len(bars))
    mask = prominent_mask(bars)
    reordered = (scale * bars[order])[prominent_mask(bars[order])].sort().values.tolist()
    assert reordered == pytest.approx((scale * bars[mask]).sort().values.tolist())
    assert prominent_bars(scale * bars) == prominent_bars(bars)


@given(lengths)
def test_prominent_bars_are_longest_and_proper_subset(bars):
    mask = prominent_mask(bars)
    assert 1 <= int(mask.sum()) == prominent_bars(bars).value <= len(bars) - 1
    assert bars[mask].min() >= bars[~mask].max()


SILHOUETTES = (silhouette, simplified_silhouette)


@st.composite
def labeled_clouds(draw):
    """A cloud of at least three points with labels of at least two classes, fewer than points."""
    x = draw(clouds(min_n=3))
    labels = draw(st.lists(st.integers(-2, 4), min_size=len(x), max_size=len(x)))
    labels[:3] = [0, 0, 1]
    return x, torch.tensor(labels)


@pytest.mark.parametrize("measure", SILHOUETTES)
@given(labeled_clouds(), seeds, st.floats(-1e3, 1e3), st.floats(1e-9, 1e9))
def test_silhouettes_ignore_rotation_shift_and_scale(measure, labeled, seed, shift, scale):
    x, labels = labeled
    moved = scale * (x @ rotation(x.shape[1], seed) + shift)
    assert measure(moved, labels).value == pytest.approx(measure(x, labels).value, abs=1e-7)


@pytest.mark.parametrize("measure", SILHOUETTES)
@given(labeled_clouds(), seeds)
def test_silhouettes_ignore_point_order_and_class_names(measure, labeled, seed):
    x, labels = labeled
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    renamed = (7 - 100 * labels).to(torch.int32)
    assert measure(x[rows], renamed[rows]).value == pytest.approx(measure(x, labels).value, abs=1e-9)


@pytest.mark.parametrize("measure", SILHOUETTES)
@given(labeled_clouds(), seeds)
def test_single_location_classes_have_silhouette_one(measure, labeled, seed):
    labels = torch.cat([labeled[1]] * 2)
    locations = torch.randn(5 + 2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    assert measure(locations[labels], labels).value == pytest.approx(1, abs=1e-6)


@given(labeled_clouds())
def test_score_by_label_averages_classes_of_four_or_more(labeled):
    x, labels = labeled
    result = score_by_label(x, labels, isoscore)
    single = {label: isoscore(x[labels == label]) for label in sorted(set(labels.tolist()))}
    sizes = {label: int((labels == label).sum()) for label in single}
    assert {entry.label: entry.n for entry in result.classes} == sizes
    counted = {entry.label: entry.score for entry in result.classes if entry.n >= 4}
    assert counted == {label: single[label] for label in counted}
    values = [score.value for score in counted.values() if score.value is not None]
    assert result.score.value == (pytest.approx(sum(values) / len(values), rel=1e-12) if values else None)
    result = score_by_label(x, labels, lambda points: Score(float(len(points))))
    assert [entry.score.value for entry in result.scored_classes] == [
        entry.n for entry in result.classes if entry.n >= 4
    ]


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
