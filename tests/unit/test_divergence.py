from math import inf, log, nan

import pytest

from app.db.learning import describe_divergence, divergence_note, find_divergence
from app.db.run_results import Divergence
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
    assert find_divergence(losses, untrained) is None


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
    ],
)
def test_find_divergence_detects_divergence(losses, untrained, expected):
    divergence = find_divergence(losses, untrained)
    assert divergence.loss == expected.loss
    assert divergence.start == pytest.approx(expected.start, abs=0.01)


def test_divergence_note_is_a_sentence():
    sentence = "Training diverged: its task loss ended at 186, after starting at 0.693."
    assert describe_divergence(Divergence(loss=186.0, start=0.693)) == sentence
    assert "not a number" in describe_divergence(Divergence(loss=None, start=0.693))
    assert divergence_note(run_row(learning={"divergence": {"loss": 186.0, "start": 0.693}})).startswith(
        "Training diverged"
    )
    assert divergence_note(run_row(learning={"divergence": None})) is divergence_note(run_row(learning=None)) is None
