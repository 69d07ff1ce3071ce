import pytest

from app.db.models import RunStatus
from app.results.figures import run_curves
from isotropy.catalog import Regularizer
from tests.unit.figures.rows import run, step

LOGGED = [
    step(0, layers={"isoscore_star": [0.3, 0.2]}),
    step(10, 0.7, -0.5, {"isoscore_star": [0.31, None]}),
    step(20, 0.5, -0.6),
]


def test_the_curves_of_a_run_leave_out_steps_without_a_value():
    one = run(1.0, steps=LOGGED)
    assert run_curves.loss_curve(one).table.rows == [[10, 0.7], [20, 0.5]]
    assert run_curves.penalty_curve(one).table.rows == [[10, -0.5], [20, -0.6]]


@pytest.mark.parametrize("make", [run_curves.loss_curve, run_curves.penalty_curve])
def test_a_run_that_has_not_begun_says_what_will_appear(make):
    assert "here" in make(run(status=RunStatus.RUNNING)).empty


@pytest.mark.parametrize("make", [run_curves.loss_curve, run_curves.penalty_curve])
def test_a_run_that_ended_without_a_step_says_so(make):
    assert make(run(status=RunStatus.FAILED)).empty == "The run ended before it logged a step."


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lam": 1.0}, "λ (1 − IsoScore★) of the batches at λ = 1 and ζ = 0.2, as"),
        ({"lam": -1.0, "regularizer": Regularizer.COSREG}, "λ · mean cosine of the batches at λ = −1, as"),
        ({"lam": 2.0, "regularizer": Regularizer.UNBIASED}, "bias-corrected IsoScore) of the batches, averaged"),
        (
            {"lam": 1.0, "regularizer": Regularizer.ENTROPY, "entropy_cluster_weight": 0.5},
            "−λ · H of the bars of the batches at λ = 1, over the prominent bars, and 0.5 times the mean length",
        ),
        (
            {"lam": 1.0, "regularizer": Regularizer.ENTROPY, "entropy_bars": "all"},
            "at λ = 1, over all bars, as added",
        ),
        (
            {"lam": 0.0, "fixed_regularizers": {"spectrum": 0.1}},
            "λ (1 − evenness of the singular values) of the input embedding matrix at λ = 0.1 (beside it), as",
        ),
        (
            {"lam": 1.0, "fixed_regularizers": {"cosreg": 0.1}},
            "ζ = 0.2, and λ · mean cosine of the batches at λ = 0.1 (beside it), as",
        ),
    ],
)
def test_the_penalty_says_what_is_added(options, words):
    assert words in run_curves.penalty_curve(run(**options, steps=LOGGED)).caption


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "Cross-entropy of the batches"),
        ({"task": "span", "metric": "word_f1", "label_names": []}, "Cross-entropy of the span’s two ends"),
        ({"task": "regression", "metric": "pearson", "label_names": []}, "Squared error"),
    ],
)
def test_the_loss_is_that_of_the_task(options, words):
    assert run_curves.loss_curve(run(**options)).caption.startswith(words)
