import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isoscope.core.errors import InvalidError
from isoscope.files.span import Span, is_nested_span, read_span, span_text

GOOD = {"text": ["in 1976", "1976"], "answer_start": [42, 45]}


def test_answers_become_json_of_texts_and_starts():
    text = span_text({**GOOD, "answer_start_exact": [True, False]}, "answers", "Line 1")
    assert text == '{"text": ["in 1976", "1976"], "answer_start": [42, 45]}'
    assert read_span(text) == Span(["in 1976", "1976"], [42, 45])
    assert span_text({"text": [], "answer_start": []}, "answers", "Line 1") is None
    assert read_span('{"text": [], "answer_start": []}') is None
    assert span_text({"text": None, "answer_start": None}, "answers", "Row 1") is None
    with pytest.raises(InvalidError, match="Row 1 holds no answers under 'answers': expected a list of texts"):
        span_text({"text": None, "answer_start": [1]}, "answers", "Row 1")
    assert span_text({"text": ["é\ud800\0"], "answer_start": [0]}, "answers", "Row 1") == (
        '{"text": ["é?\ufffd"], "answer_start": [0]}'
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"text": "in 1976"}, "expected a list of texts and a list of as many positions"),
        ({"answer_start": 42}, "expected a list of texts and a list of as many positions"),
        ({"answer_start": None}, "expected a list of texts and a list of as many positions"),
        ({"answer_start": [42]}, "expected a list of texts and a list of as many positions"),
        ({"text": ["in 1976", 1976]}, "expected texts that are not empty, got 1976"),
        ({"text": ["in 1976", " "]}, "expected texts that are not empty, got ' '"),
        ({"text": ["in 1976", ["x" * 99]]}, r"expected texts that are not empty, got \['x{38}"),
        ({"answer_start": [42, -1]}, "expected positions counted from 0, got -1"),
        ({"answer_start": [42, 2.5]}, r"expected positions counted from 0, got 2\.5"),
        ({"answer_start": [42, True]}, "expected positions counted from 0, got True"),
        ({"answer_start": [42, 2**31]}, "expected positions counted from 0, got 2147483648"),
        ({"text": ["x"] * 1001, "answer_start": [0] * 1001}, "expected at most 1,000 answers, got 1,001"),
    ],
)
def test_invalid_answer_is_refused_by_line_and_column(changes, sentence):
    with pytest.raises(InvalidError, match=rf"^Line 7 holds no answers under 'a': {sentence}, as in {{\"text\": "):
        span_text(GOOD | changes, "a", "Line 7")
    assert read_span(json.dumps(GOOD | changes)) is None


@pytest.mark.parametrize("value", [{}, {"text": ["x"]}, ["text", "answer_start"], "text answer_start", None, 3])
@pytest.mark.parametrize("text", ["", "{", "[1]", "3", "{}", "a text", '{"a":' * 50_000, '{"text": ' + "9" * 5000])
def test_other_values_hold_no_answers(value, text):
    assert not is_nested_span(value)
    assert read_span(text) is None


@pytest.mark.slow
@given(answers=st.lists(st.tuples(st.text().filter(str.strip), st.integers(0, 2**31 - 1)), min_size=1))
def test_written_answers_read_back(answers):
    texts, starts = map(list, zip(*answers, strict=True))
    written = span_text({"text": texts, "answer_start": starts}, "answers", "Row 1")
    assert read_span(written) == Span([text.replace("\0", "\ufffd") for text in texts], starts)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.slow
@given(texts=VALUES, starts=VALUES)
def test_any_values_are_read_or_refused(texts, starts):
    value = {"text": texts, "answer_start": starts}
    if texts == starts and texts in ([], None):
        assert span_text(value, "answers", "Row 1") is None
    elif isinstance(texts, list) and read_span(json.dumps(value)):
        assert read_span(span_text(value, "answers", "Row 1")) is not None
    else:
        with pytest.raises(InvalidError, match=r"^Row 1 holds no answers under 'answers': expected "):
            span_text(value, "answers", "Row 1")
