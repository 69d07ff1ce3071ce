import json

import pytest

from app.errors import InvalidError
from workers.finetune.tasks.answers import Answers, read_answers


def answers(text, answer_start):
    return Answers(text=text, answer_start=answer_start)


def test_answers_are_read_as_squad_writes_them():
    rows = [{"text": ["a film", "film"], "answer_start": [4, 6]}, {"text": ["7"], "answer_start": [0], "id": "x"}]
    found = read_answers([json.dumps(row) for row in rows], "answers")
    assert found == [answers(["a film", "film"], [4, 6]), answers(["7"], [0])]


@pytest.mark.parametrize(
    ("value", "shown", "what"),
    [
        (None, "nothing", "Invalid JSON"),
        ("the film", "'the film'", "Invalid JSON"),
        (7, "7", "an object"),
        ('{"text": "film", "answer_start": 3}', "film", "text: Input should be a valid"),
        ('{"text": ["film"]}', "film", "answer_start: Field required"),
        ('{"text": [], "answer_start": []}', "[]", "text: List should have at least 1 item"),
        ('{"text": ["film"], "answer_start": ["3"]}', "film", "answer_start.0: Input should be a valid integer"),
        ('{"text": ["film"], "answer_start": [1, 2]}', "film", "it has 1 texts and 2 starts"),
        ('{"text": ["film", " "], "answer_start": [1, 2]}', "film", "one of its texts is empty"),
        ("x" * 500, "xxx…", "Invalid JSON"),
    ],
)
def test_what_is_no_answer_is_told_with_its_row(value, shown, what):
    good = '{"text": ["film"], "answer_start": [4]}'
    with pytest.raises(InvalidError) as caught:
        read_answers([good, value], "answers")
    assert str(caught.value).startswith("Row 2 has ")
    assert all(part in str(caught.value) for part in (shown, "in column 'answers'", what, "Mend the file"))
    assert caught.value.field == "label_column"


@pytest.mark.parametrize(
    ("text", "start", "place"),
    [
        ("film", 6, (6, 10)),
        ("film", 24, (24, 28)),
        ("plot", 3, (15, 19)),
        ("plot", -1, (15, 19)),
        ("plot", 10**9, (15, 19)),
        (" and ", 10, (11, 14)),
        ("film", 0, None),
        ("cast", 2, None),
    ],
)
def test_an_answer_is_where_the_row_says_or_where_alone_the_text_has_it(text, start, place):
    assert answers([text], [start]).place("a bad film and plot, so film") == place


def test_the_first_answer_that_is_found_counts():
    assert answers(["cast", "film", "bad"], [0, 6, 2]).place("a bad film") == (6, 10)
