import json

import pytest

from isoscope.core.errors import InvalidError
from isoscope.files.span import Span
from workers.training.tasks.questions import find_answer, read_answers


def test_squad_answers_are_read_and_first_found_counts():
    rows = [{"text": ["a film", "film"], "answer_start": [4, 6]}, {"text": ["7"], "answer_start": [0], "id": "x"}]
    answers = read_answers([json.dumps(row) for row in rows], "answers")
    assert answers == [Span(["a film", "film"], [4, 6]), Span(["7"], [0])]
    assert find_answer(Span(["cast", "film", "bad"], [0, 6, 2]), "a bad film") == (6, 10)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (None, "expected an object with 'text' and 'answer_start', got nothing"),
        ("the film", "got 'the film'"),
        (7, "got '7'"),
        ('{"text": ["film"]}', "expected an object with 'text' and 'answer_start', got "),
        ("[" * 10**5, "expected an object with 'text' and 'answer_start', got '[[["),
        ('{"text": "film", "answer_start": 3}', "expected a list of texts and a list of as many positions"),
        ('{"text": ["film"], "answer_start": [1, 2]}', "expected a list of texts and a list of as many positions"),
        ('{"text": ["film"], "answer_start": ["3"]}', "expected positions counted from 0, got '3'"),
        ('{"text": ["film", " "], "answer_start": [1, 2]}', "expected texts that are not empty, got ' '"),
        ('{"text": [], "answer_start": []}', "expected one or more"),
    ],
)
def test_invalid_answer_is_refused_by_row(value, sentence):
    good = '{"text": ["film"], "answer_start": [4]}'
    with pytest.raises(InvalidError) as caught:
        read_answers([good, value], "answers")
    assert str(caught.value).startswith("Row 2 holds no answers under ")
    assert sentence in str(caught.value)
    assert str(caught.value).endswith("Fix the file, leave the row out, or choose another column.")
    assert (len(str(caught.value)) < 300, caught.value.field) == (True, "label_column")


@pytest.mark.parametrize(
    ("text", "start", "span"),
    [
        ("film", 6, (6, 10)),
        ("film", 24, (24, 28)),
        ("plot", 3, (15, 19)),
        ("plot", 10**9, (15, 19)),
        (" and ", 10, (11, 14)),
        ("film", 0, None),
        ("cast", 2, None),
    ],
)
def test_answer_is_found_at_its_start_or_only_occurrence(text, start, span):
    assert find_answer(Span([text], [start]), "a bad film and plot, so film") == span
