import numpy as np
import pytest
import torch

from isotropy.score import Score
from workers.training.tasks.classification import ClassPredictions


def metrics(names, right, predicted):
    classes = ClassPredictions(names, np.arange(len(right)))
    classes.add({"logits": torch.eye(len(names))[predicted]}, {"labels": torch.tensor(right)})
    return classes.metrics()


def test_f1_is_of_second_label_and_needs_it_among_rows():
    assert metrics(["no", "yes"], [0, 1, 1], [1, 1, 0])["f1"] == Score(0.5)
    for predicted in ([0, 0], [0, 1]):
        f1 = metrics(["no", "yes"], [0, 0], predicted)["f1"]
        assert f1 == Score.undefined("No validation row has the label 'yes', which F1 looks for.")
    scores = metrics(["no", "yes"], [1, 1, 1], [1, 0, 1])
    reason = "All validation rows have the label 'yes', so correlations are undefined."
    assert scores["matthews"] == Score.undefined(reason)
    assert (scores["accuracy"].value, scores["f1"].value) == (pytest.approx(2 / 3), pytest.approx(0.8))
    assert metrics(["no", "yes"], [0, 1], [1, 1])["matthews"] == Score(0.0)
