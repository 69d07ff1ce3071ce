"""Reference answers to a question on a text: read as SQuAD writes them, found in the text."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from app.errors import InvalidError


class Answers(BaseModel):
    """The answers that people gave to one question; SQuAD's own names of the two lists."""

    model_config = ConfigDict(strict=True, frozen=True)

    text: list[str] = Field(min_length=1)
    answer_start: list[int]
    """Characters of the text before each answer."""

    @model_validator(mode="after")
    def _each_has_a_place(self) -> "Answers":
        if len(self.text) != len(self.answer_start):
            raise ValueError(f"it has {len(self.text)} texts and {len(self.answer_start)} starts")
        if not all(text.strip() for text in self.text):
            raise ValueError("one of its texts is empty")
        return self

    def place(self, context: str) -> tuple[int, int] | None:
        """Return the characters [begin, end) of the first answer that is found in ``context``; None if none is.

        An answer is where the row says, or else where the text has it, if it does so once.
        """
        for text, start in zip(self.text, self.answer_start, strict=True):
            begin = start if start >= 0 and context.startswith(text, start) else _only_place(context, text)
            if begin is not None:
                # No token holds the blanks around an answer.
                left = begin + len(text) - len(text.lstrip())
                return left, left + len(text.strip())
        return None


def read_answers(values: list[Any], column: str) -> list[Answers]:
    """Return the answers of each row of a column that holds SQuAD's objects as JSON text.

    Raises:
        InvalidError: a row holds something else, or no answer at all.

    """
    return [_read(value, row, column) for row, value in enumerate(values, start=1)]


def _read(value: object, row: int, column: str) -> Answers:
    try:
        return Answers.model_validate_json(str(value))
    except ValidationError as error:
        raise InvalidError(
            f"Row {row} has {_short(value)} in column {column!r}: {_what(error)}. Expected answers as in SQuAD 1.1, "
            '{"text": ["an answer"], "answer_start": [12]}, at least one in each row, with the number of '
            "characters before it. Mend the file, or leave the row out.",
            "label_column",
        ) from error


def _only_place(context: str, text: str) -> int | None:
    begin = context.find(text)
    return begin if begin >= 0 and context.find(text, begin + 1) < 0 else None


def _short(value: object) -> str:
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _what(error: ValidationError) -> str:
    """Return the first complaint, and where in the object it is."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    words = str(first["ctx"]["error"] if first["type"] == "value_error" else first["msg"])
    return f"{place}: {words}" if place else words
