import math

import pytest
import torch

from isotropy.clusters import silhouette, simplified_silhouette
from isotropy.isoscore import isoscore
from isotropy.labels import score_by_label

# Two classes on a line: {0, 2} and {10, 14}.
POINTS = torch.tensor([[0.0], [2.0], [10.0], [14.0]])
CLASSES = torch.tensor([0, 0, 1, 1])
SILHOUETTES = [("The silhouette", silhouette), ("The simplified silhouette", simplified_silhouette)]
each_silhouette = pytest.mark.parametrize(("name", "measure"), SILHOUETTES)


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e30])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("label_dtype", [torch.bool, torch.uint8, torch.int32])
@each_silhouette
def test_silhouettes_do_not_depend_on_scale_or_dtype(name, measure, scale, dtype, label_dtype):
    expected = measure(POINTS, CLASSES).value
    assert measure(POINTS * scale, CLASSES).value == pytest.approx(expected, rel=1e-6)
    assert measure(POINTS.to(dtype), CLASSES).value == pytest.approx(expected, rel=1e-12)
    assert measure(POINTS, CLASSES.to(label_dtype)).value == expected


@each_silhouette
def test_equal_points_of_two_classes_have_silhouette_zero(name, measure):
    assert measure(torch.full((6, 3), 0.1), torch.tensor([0, 0, 0, 1, 1, 1])).value == 0
    x = torch.randn(1, 300, generator=torch.Generator().manual_seed(0)).repeat(1200, 1)
    x[1198:] = 5
    labels = torch.arange(1200) % 2
    labels[1198:] = 2
    assert measure(x, labels).value == pytest.approx(2 / 1200, rel=1e-6)


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ([], "needs at least 2 classes; there are 0."),
        ([5], "needs at least 2 classes; there is 1."),
        ([5, 5, 5], "needs at least 2 classes; there is 1."),
        ([0, 1], "needs a class of at least 2 points; each of the 2 points has its own class."),
    ],
)
@each_silhouette
def test_silhouettes_need_two_classes_and_a_class_of_two(name, measure, labels, reason):
    x = torch.randn(len(labels), 3)
    score = measure(x, torch.tensor(labels, dtype=torch.int64))
    assert (score.value, score.reason) == (None, f"{name} {reason}")


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@each_silhouette
def test_nonfinite_points_leave_silhouettes_undefined(name, measure, bad):
    score = measure(torch.tensor([[bad], [1.0], [2.0]]), torch.tensor([0, 0, 1]))
    assert score.reason == f"{name} is not finite: some points are NaN or infinite."


@pytest.mark.parametrize("labels", [torch.zeros(4), torch.zeros(3).long(), torch.zeros(4, 1).long()])
def test_silhouettes_refuse_invalid_labels(labels):
    for measure in (silhouette, simplified_silhouette):
        with pytest.raises(
            ValueError, match=r"Expected labels as an integer tensor \[4\], got \[.*\] of torch.*: give"
        ):
            measure(POINTS, labels)
        with pytest.raises(ValueError, match=r"Expected points as a floating tensor \[n, d\], got \[4\]"):
            measure(CLASSES, CLASSES)


CROSS = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
LINE = torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [5.0, 5.0]])


def test_each_class_has_score_or_reason():
    x = torch.cat([CROSS, LINE, torch.ones(4, 2)])
    result = score_by_label(x, torch.tensor([7] * 4 + [3] * 4 + [9] * 4), isoscore)
    assert [(entry.label, entry.n) for entry in result.classes] == [(3, 4), (7, 4), (9, 4)]
    assert [entry.score.value for entry in result.classes] == [pytest.approx(0), pytest.approx(1), None]
    assert result.classes[2].score.reason.startswith("The covariance is zero")
    assert result.score.value == pytest.approx(0.5)
    assert [entry.label for entry in result.scored_classes] == [3, 7]
    result = score_by_label(torch.cat([torch.ones(4, 2), CROSS[:2]]), torch.tensor([0, 0, 0, 0, 1, 1]), isoscore)
    assert result.score.value is None
    reason = result.classes[0].score.reason
    assert reason.startswith("The covariance is zero: all points are equal")
    assert result.score.reason == f"None of 2 classes has a score. The first: {reason}"
    assert score_by_label(torch.ones(4, 2), torch.zeros(4).long(), isoscore).score.reason == reason
    result = score_by_label(torch.ones(0, 2), torch.zeros(0).long(), isoscore)
    assert result.score.reason == "A score by label needs labeled points; there is none."
    assert result.classes == ()


@pytest.mark.parametrize(("n", "count"), [(1, "there is 1"), (2, "there are 2"), (3, "there are 3")])
def test_classes_need_four_points(n, count):
    result = score_by_label(torch.cat([CROSS, LINE[:n]]), torch.tensor([0] * 4 + [1] * n), isoscore)
    assert result.classes[1].score.reason == f"The score of a class needs at least 4 points; {count}."
    assert result.score.value == pytest.approx(1)
    assert [entry.label for entry in result.scored_classes] == [0]


def test_score_by_label_refuses_invalid_labels():
    for labels in (torch.zeros(4), torch.zeros(3).long()):
        with pytest.raises(
            ValueError, match=r"Expected labels as an integer tensor \[4\], got \[.*\] of torch.*: give"
        ):
            score_by_label(CROSS, labels, isoscore)
    with pytest.raises(ValueError, match=r"Expected points as a floating tensor \[n, d\], got \[4\]"):
        score_by_label(torch.arange(4), torch.arange(4), isoscore)
