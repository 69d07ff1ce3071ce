import random

import pytest
from torchmetrics.functional.text import squad

from workers.training.tasks.questions import exact_match, word_f1

WORDS = [
    "the",
    "The",
    "a",
    "an",
    "An",
    "film,",
    "film",
    "FILM.",
    "plot",
    "is",
    "was",
    "(good)",
    "good",
    "«bad»",
    "u.s.",
]


def torchmetrics(answer, references):
    row = {"answers": {"text": references, "answer_start": [0] * len(references)}, "id": "1"}
    scores = squad([{"prediction_text": answer, "id": "1"}], [row])
    return float(scores["exact_match"]) / 100, float(scores["f1"]) / 100


def test_overlap_matches_torchmetrics():
    draw = random.Random(0)
    for _ in range(300):
        answer, *references = (" ".join(draw.choices(WORDS, k=draw.randint(0, 5))) for _ in range(draw.randint(2, 4)))
        expected = torchmetrics(answer, references)
        assert (exact_match(answer, references), word_f1(answer, references)) == pytest.approx(expected)
    assert exact_match("The Film, a plot!", ["film plot"]) == 1
    assert exact_match("film plot", ["plot film"]) == 0
    assert word_f1("film plot", ["plot film"]) == 1
    assert word_f1("good good film", ["good plot", "cast", "film"]) == pytest.approx(0.5)
    assert word_f1("good good film", ["good"]) == pytest.approx(0.5)
    assert word_f1("dull", ["good", "film"]) == 0
    assert (word_f1("The", ["a"]), word_f1("The", ["film"]), word_f1("", ["film"])) == (1, 0, 0)
