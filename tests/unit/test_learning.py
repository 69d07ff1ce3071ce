from math import inf, log, nan

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from app.db import learning
from app.db.models import RunStatus
from app.db.predictions import Predictions
from app.db.run_results import Divergence
from isoscope.core.task import Metric
from tests.factories import run_row

UNTRAINED = log(2)


@pytest.mark.parametrize(
    ("losses", "untrained"),
    [
        ([0.7, 0.5, 0.3, 0.1], UNTRAINED),
        ([0.7] * 30, UNTRAINED),
        ([0.7, *[0.9] * 20, 1.3], UNTRAINED),  # worse than guessing, but not twice as bad
        ([1.5, 1.6, 1.7], UNTRAINED),  # started from bad weights and stayed there
        ([0.01, 0.05], UNTRAINED),  # started from trained weights: still far better than guessing
        ([9.0, 8.5, 8.0], 9.5),
        ([0.5], UNTRAINED),
        ([], None),
        ([-3.0, -1.0], None),  # a loss that can be negative has no scale
        ([0.7, 100.0, *[0.5] * 18], UNTRAINED),  # recovered
    ],
)
def test_find_divergence_accepts_normal_losses(losses, untrained):
    assert learning.find_divergence(losses, untrained) is None


@pytest.mark.parametrize(
    ("losses", "untrained", "expected"),
    [
        ([0.69, *[186.0] * 9], UNTRAINED, Divergence(loss=186.0, start=UNTRAINED)),
        ([186.0] * 10, UNTRAINED, Divergence(loss=186.0, start=UNTRAINED)),  # within its first logged steps
        ([1.0, 2.5], None, Divergence(loss=2.5, start=1.0)),
        ([1.0, 2.5], UNTRAINED, Divergence(loss=2.5, start=1.0)),
        ([0.7, 0.6, None], UNTRAINED, Divergence(loss=None, start=UNTRAINED)),
        ([0.7, 0.6, nan], UNTRAINED, Divergence(loss=None, start=UNTRAINED)),
        ([0.7, 0.6, inf], UNTRAINED, Divergence(loss=None, start=UNTRAINED)),
        ([None, None], None, Divergence(loss=None, start=None)),
    ],
)
def test_find_divergence_detects_divergence(losses, untrained, expected):
    divergence = learning.find_divergence(losses, untrained)
    assert divergence.loss == expected.loss
    assert divergence.start == pytest.approx(expected.start, abs=0.01)


def test_divergence_note_is_a_sentence():
    sentence = "Training diverged: its task loss ended at 186, after starting at 0.693."
    assert learning.describe_divergence(Divergence(loss=186.0, start=0.693)) == sentence
    for start, end in ((0.693, "not a number at the end."), (None, "not a number from the first step on.")):
        assert learning.describe_divergence(Divergence(loss=None, start=start)).endswith(end)
    diverged = run_row(learning={"divergence": {"loss": 186.0, "start": 0.693}})
    assert learning.divergence_note(diverged).startswith("Training diverged")
    for stored in ({"divergence": None}, None):
        assert learning.divergence_note(run_row(learning=stored)) is None


NAMES = ["no", "yes", "perhaps"]


@pytest.mark.parametrize("metric", [Metric.ACCURACY, Metric.F1, Metric.MATTHEWS])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_best_constant_class_matches_scikit_learn(metric, n_classes, seed):
    draw = np.random.default_rng(seed)
    shares = draw.dirichlet(np.ones(n_classes))
    train = draw.choice(n_classes, 60, p=shares)
    scored = np.append(np.arange(n_classes), draw.integers(0, n_classes, 9))
    average = "binary" if n_classes == 2 else "macro"

    def score(labels, constant):
        predicted = np.full(len(labels), constant)
        return {
            Metric.ACCURACY: accuracy_score(labels, predicted),
            Metric.F1: f1_score(labels, predicted, average=average, zero_division=0),
            Metric.MATTHEWS: matthews_corrcoef(labels, predicted),
        }

    predictor = learning.best_constant_class(train, scored, NAMES[:n_classes], metric, "training")
    chosen = next(name for name in NAMES if predictor.predictor.startswith(f"always “{name}”"))
    on_train = [score(train, code)[metric] for code in range(n_classes)]
    assert on_train[NAMES.index(chosen)] == pytest.approx(max(on_train))
    assert predictor.metrics == pytest.approx(score(scored, NAMES.index(chosen)))
    assert predictor.reasons == {}


def test_predictor_describes_itself_and_undefined_metrics():
    train = np.array([0, 0, 0, 1])
    metrics = Metric.ACCURACY, Metric.F1
    by_accuracy, by_f1 = (
        learning.best_constant_class(train, train, NAMES[:2], metric, "training") for metric in metrics
    )
    assert by_accuracy.predictor == "always “no”, the most frequent class of the training rows"
    assert by_f1.predictor == "always “yes”, the class that F1 looks for"
    alike = np.zeros(4, dtype=np.int64)
    predictor = learning.best_constant_class(alike, alike, NAMES[:2], Metric.ACCURACY, "training")
    assert predictor.metrics == {"accuracy": 1.0, "f1": None, "matthews": None}
    assert predictor.reasons.keys() == {"f1", "matthews"}
    assert learning.mean_predictor(np.array([1.0, 2.0]), "training").reasons.keys() == {"pearson", "spearman"}
    assert learning.empty_answer_predictor(0.25, 0.5).metrics == {"exact_match": 0.25, "word_f1": 0.5}


def run(performance, metric="accuracy", facts=None, **columns):
    task = {"pearson": "regression", "word_f1": "span"}.get(metric, "classification")
    names = ["no", "yes"] if task == "classification" else []
    trivial = {"predictor": "always “no”", "metrics": {metric: 0.5}, "reasons": {}}
    results = {"trivial": trivial} if facts is None else facts
    config = {"metric": metric, "task": task, "label_names": names}
    return run_row(performance=performance, learning=results, config=config, **columns)


def test_run_at_or_below_trivial_predictor_learned_nothing():
    assert learning.no_learning_note(run(0.51)) is None
    for performance in (0.5, 0.5 + 1e-12, 0.4):
        assert "trivial predictor" in learning.no_learning_note(run(performance))
    results = {"constant_prediction": "“yes”", "trivial": run(0).learning.trivial}
    assert learning.no_learning_note(run(0.6, facts=results)) == "Every validation row was predicted as “yes”."


def test_trivial_correlation_is_zero():
    results = {"trivial": learning.mean_predictor(np.array([1.0, 2.0]), "training").dump()}
    assert learning.trivial_score(run(0.4, "pearson", results)) == 0.0
    assert learning.no_learning_note(run(0.01, "pearson", results)) is None
    assert "0" in learning.no_learning_note(run(-0.1, "pearson", results))
    for row in (run(0.1, facts={}), run(0.1, facts={"trivial": None}), run(None), run(0.1, status=RunStatus.FAILED)):
        assert learning.no_learning_note(row) is None
    assert learning.trivial_score(run_row(learning=None)) is None


def test_constant_predictions_are_described():
    three = np.arange(3)
    predictions = Predictions(three, np.array([0, 1, 0]), np.ones(3, dtype=np.int64))
    assert learning.describe_constant(predictions, ["no", "yes"]) == "“yes”"
    assert learning.describe_constant(predictions, []) == "“1”"
    assert learning.describe_constant(Predictions(three, np.arange(3.0), np.full(3, 2.345678)), []) == "2.346"
    assert learning.describe_constant(Predictions(three, None, ("", "", ""), np.zeros(3), np.zeros(3)), []) == "“”"
    assert learning.describe_constant(Predictions(three, three, three), []) is None
    assert (
        learning.describe_constant(Predictions(np.arange(1), np.arange(1), np.arange(1)), []) is None
    )  # one row is no pattern
