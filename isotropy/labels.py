"""Classes of points and a score of each class. Labels are integer codes; leave out points without one."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from isotropy.points import require_points
from isotropy.score import Score, there_are

# Minimum points of a class for a score by label; two points always lie on a line.
MIN_CLASS_ROWS = 4


@dataclass(frozen=True)
class ClassScore:
    """Score of one class."""

    label: int  # Its code
    n: int  # Points of the class
    score: Score


@dataclass(frozen=True)
class ScoreByLabel:
    """Scores of all classes, ascending by label, and their mean."""

    score: Score  # The mean over the classes that have a score, each with the same weight, in the range of the measure
    classes: tuple[ClassScore, ...]

    @property
    def scored_classes(self) -> tuple[ClassScore, ...]:
        return tuple(entry for entry in self.classes if entry.score.value is not None)


def score_by_label(x: Tensor, labels: Tensor, measure: Callable[[Tensor], Score]) -> ScoreByLabel:
    """Return the score by ``measure`` of each class of points [n, d] with class codes [n], and the mean over classes.

    Classes of fewer than ``MIN_CLASS_ROWS`` points have no score; the mean is undefined if no class has one. Raises
    ValueError for points or labels of another type or shape.
    """
    class_labels, codes, sizes = classes_of(x, labels)
    rows_by_class = torch.split(codes.argsort(stable=True), sizes.tolist())
    scores = []
    for class_label, rows in zip(class_labels.tolist(), rows_by_class, strict=True):
        score = Score.undefined(f"The score of a class needs at least {MIN_CLASS_ROWS} points; {there_are(len(rows))}.")
        if len(rows) >= MIN_CLASS_ROWS:
            score = measure(x[rows])
        scores.append(ClassScore(int(class_label), len(rows), score))
    classes = tuple(scores)
    values = [entry.score.value for entry in classes if entry.score.value is not None]
    if values:
        return ScoreByLabel(Score(math.fsum(values) / len(values)), classes)
    if not classes:
        return ScoreByLabel(Score.undefined("A score by label needs labeled points; there is none."), classes)
    first_reason = classes[0].score.reason
    reason = (
        f"None of {len(classes)} classes has a score. The first: {first_reason}" if len(classes) > 1 else first_reason
    )
    return ScoreByLabel(Score(None, reason), classes)


def classes_of(x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the labels that occur [k], the index of each point's label int64 [n], and their counts [k]."""
    require_points(x)
    if labels.shape != (len(x),) or labels.is_floating_point() or labels.is_complex():
        raise ValueError(
            f"Expected labels as an integer tensor [{len(x)}], got {list(labels.shape)} of {labels.dtype}: "
            "give each point the code of its class, and leave out points without one."
        )
    class_labels, codes, sizes = torch.unique(labels.to(x.device), return_inverse=True, return_counts=True)
    return class_labels, codes, sizes
