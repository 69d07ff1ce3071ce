"""Answers in SQuAD's format: texts that occur in a context, and the position of each.

Files hold an object of two lists, ``text`` and ``answer_start``. Once read, answers are the JSON text of this object.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from isoscope.core.errors import InvalidError
from isoscope.core.formatting import quote, storable

TEXTS, STARTS = "text", "answer_start"
MAX_ANSWERS = 1000
MAX_START = 2**31 - 1
EXAMPLE = '{"text": ["in 1976"], "answer_start": [42]}'


class Span(NamedTuple):
    """The right answers to a question, at least one."""

    texts: list[str]
    # Position in the context of the first character of each text.
    starts: list[int]

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Read the two lists of an object; raise ValueError with what is wrong with them."""
        texts, starts = value[TEXTS], value[STARTS]
        if texts is None and starts is None:
            return cls([], [])
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise ValueError("expected a list of texts and a list of as many positions")
        if len(texts) > MAX_ANSWERS:
            raise ValueError(f"expected at most {MAX_ANSWERS:,} answers, got {len(texts):,}")
        if invalid := [text for text in texts if not isinstance(text, str) or not text.strip()]:
            raise ValueError(f"expected texts that are not empty, got {invalid[0]!r:.40}")
        if invalid := [start for start in starts if type(start) is not int or not 0 <= start <= MAX_START]:
            raise ValueError(f"expected positions counted from 0, got {invalid[0]!r:.40}")
        return cls([storable(text) for text in texts], starts)


def is_nested_span(value: object) -> bool:
    return isinstance(value, Mapping) and TEXTS in value and STARTS in value


def span_text(value: Mapping[str, Any], column: str, row_label: str) -> str | None:
    """Return answers as JSON text, None if there are none; InvalidError names the row by ``row_label``."""
    try:
        span = Span.parse(value)
    except ValueError as error:
        raise InvalidError(f"{row_label} holds no answers under {quote(column)}: {error}, as in {EXAMPLE}.") from None
    return json.dumps({TEXTS: span.texts, STARTS: span.starts}, ensure_ascii=False) if span.texts else None


def read_span(text: str) -> Span | None:
    """Return the answers in a JSON text; None if it holds no answers."""
    if not text.startswith("{"):
        return None
    try:
        value = json.loads(text)
        span = Span.parse(value) if is_nested_span(value) else None
    except (ValueError, RecursionError):
        return None
    return span if span and span.texts else None
