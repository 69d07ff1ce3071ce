import pytest
import torch

from isotropy.isoscore import isoscore
from isotropy.labels import score_by_label

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


def test_labels_of_wrong_type_or_shape_are_refused():
    for labels in (torch.zeros(4), torch.zeros(3).long()):
        with pytest.raises(
            ValueError, match=r"Expected labels as an integer tensor \[4\], got \[.*\] of torch.*: give"
        ):
            score_by_label(CROSS, labels, isoscore)
    with pytest.raises(ValueError, match=r"Expected points as a floating tensor \[n, d\], got \[4\]"):
        score_by_label(torch.arange(4), torch.arange(4), isoscore)
