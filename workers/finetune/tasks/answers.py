"""Reference answers to a question: read from their column, found in the text."""

import json
from typing import Any

from isoscope.core.errors import InvalidError
from isoscope.files.span import EXAMPLE, STARTS, TEXTS, Span, is_nested_span
from isoscope.files.wording import shown


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
    answers = Span.of(held)
    if not answers.texts:
        raise ValueError("expected one or more")
    return answers


def _only_place(context: str, text: str) -> int | None:
    begin = context.find(text)
    return begin if begin >= 0 and context.find(text, begin + 1) < 0 else None
