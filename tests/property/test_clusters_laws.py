import pytest
import torch
from clouds import clouds, rotation, seeds
from hypothesis import given
from hypothesis import strategies as st

from isotropy.clusters import silhouette, simplified_silhouette
from isotropy.isoscore import isoscore
from isotropy.labels import score_by_label
from isotropy.score import Score

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
