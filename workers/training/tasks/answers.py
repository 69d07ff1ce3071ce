"""Reference answers to a question: read, found in the text, compared as SQuAD does.

Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions for Machine Comprehension of Text", and its published script.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from string import punctuation
from typing import Any

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import shown
from isoscope.files.span import EXAMPLE, STARTS, TEXTS, Span, is_nested_span

WITHOUT_PUNCTUATION = str.maketrans("", "", punctuation)
ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalised_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without ASCII punctuation and English articles."""
    return ARTICLES.sub(" ", text.lower().translate(WITHOUT_PUNCTUATION)).split()


def exact_match(given: str, references: Iterable[str]) -> float:
    """Return 1 if the answer has the words of one of the references in their order, else 0."""
    words = normalised_words(given)
    return float(any(words == normalised_words(reference) for reference in references))


def word_f1(given: str, references: Iterable[str]) -> float:
    """Return the F1 of the words that answer and reference share, in [0, 1], of the best of the references.

    Of an answer that normalization leaves no word of, such as "The", it is 1 beside another such and else 0.
    """
    words = Counter(normalised_words(given))
    return max(_f1(words, Counter(normalised_words(reference))) for reference in references)


def _f1(given: Counter[str], reference: Counter[str]) -> float:
    if not given or not reference:
        return float(given == reference)
    # The harmonic mean of shared / given and shared / reference.
    return 2 * (given & reference).total() / (given.total() + reference.total())


def read_answers(values: list[Any], column: str) -> list[Span]:
    """Return the answers of each row of a column that holds SQuAD's objects as JSON text.

    Raises:
        InvalidError: a row holds something else, or no answer at all.

    """
    return [_read(value, row, column) for row, value in enumerate(values, start=1)]


def find_answer(answers: Span, context: str) -> tuple[int, int] | None:
    """Return the characters [begin, end) of the first answer that is found in ``context``; None if none is.

    An answer is where its row says, or else where the text has it, if it does so once.
    """
    for text, start in zip(answers.texts, answers.starts, strict=True):
        begin = start if context.startswith(text, start) else _only_place(context, text)
        if begin is not None:
            # No token holds the blanks around an answer.
            left = begin + len(text) - len(text.lstrip())
            return left, left + len(text.strip())
    return None


def _read(value: object, row: int, column: str) -> Span:
    try:
        answers = _answers(value)
    except ValueError as error:
        raise InvalidError(
            f"Row {row} holds no answers under {shown(column)}: {error}, as in {EXAMPLE}. Mend the file, leave the row "
            "out, or choose another column.",
            "label_column",
        ) from error
    return answers


def _answers(value: object) -> Span:
    try:
        held = json.loads(str(value))
    except (ValueError, RecursionError):
        held = None
    if not is_nested_span(held):
        got = "nothing" if value is None else f"{str(value)!r:.60}"
        raise ValueError(f"expected an object with {TEXTS!r} and {STARTS!r}, got {got}")
    answers = Span.parse(held)
    if not answers.texts:
        raise ValueError("expected one or more")
    return answers


def _only_place(context: str, text: str) -> int | None:
    begin = context.find(text)
    return begin if begin >= 0 and context.find(text, begin + 1) < 0 else None
