"""Kinds of fields: how a value that is typed is compared with a column."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from operator import eq, ge, gt, le, lt
from typing import Any, Protocol

from sqlalchemy import ColumnElement, and_, func, select

Condition = ColumnElement[bool]

ORDERED: Mapping[str, Callable[[Any, Any], Any]] = {"<": lt, "<=": le, ">": gt, ">=": ge, "=": eq, ":": eq}
NOTHING = ("none", "default", "unknown")
"""How a value is called that is not there: none of a result, the default of a setting, what a script did not say."""
MINUS = str.maketrans("−", "-")
"""Numbers are found as pages print them."""
LATEST = date(9998, 12, 31)


class UnreadableError(ValueError):
    """A value that the field cannot have; the message says what was expected instead."""


class Kind(Protocol):
    """What a field holds."""

    @property
    def operators(self) -> Sequence[str]:
        """Those that mean something, ``!=`` besides."""
        ...

    @property
    def column(self) -> ColumnElement[Any]:
        """What it is sorted by."""
        ...

    def condition(self, operator: str, value: str) -> Condition:
        """Rows of which the comparison holds. Raises UnreadableError."""
        ...


@dataclass(frozen=True)
class Text:
    """Words: a part of them whatever the case, or with ``=`` all of them."""

    text: ColumnElement[Any]
    exactly: ColumnElement[Any] | None = None
    """An id that stands for the row as well."""
    operators: Sequence[str] = (":", "=")

    @property
    def column(self) -> ColumnElement[Any]:
        """The text whatever its case."""
        return func.lower(self.text)

    def condition(self, operator: str, value: str) -> Condition:
        """Rows whose text has the value as a part, or is the value."""
        if operator == ":":
            found: Condition = self.text.icontains(value, autoescape=True)
        else:
            found = func.lower(self.text) == func.lower(value)
        return found if self.exactly is None else found | (self.exactly == value)


@dataclass(frozen=True)
class Tags:
    """Words in a table of their own: one of them has a part, or with ``=`` one of them is it, whatever the case."""

    row: ColumnElement[Any]
    of_row: ColumnElement[Any]
    """The row of a word."""
    word: ColumnElement[Any]
    operators: Sequence[str] = (":", "=")

    @property
    def column(self) -> ColumnElement[Any]:
        """The first of the words in alphabetical order."""
        return select(func.min(func.lower(self.word))).where(self.of_row == self.row).scalar_subquery()

    def condition(self, operator: str, value: str) -> Condition:
        """Rows with such a word, or with none."""
        own = select(self.word).where(self.of_row == self.row)
        if value.lower() in NOTHING and operator == ":":
            return ~own.exists()
        part = self.word.icontains(value, autoescape=True)
        return own.where(part if operator == ":" else func.lower(self.word) == func.lower(value)).exists()


@dataclass(frozen=True)
class Number:
    """A number, or nothing."""

    column: ColumnElement[Any]
    operators: Sequence[str] = tuple(ORDERED)

    def condition(self, operator: str, value: str) -> Condition:
        """Rows whose number compares so."""
        if value.lower() in NOTHING and operator in "=:":
            return self.column.is_(None)
        compared: Condition = ORDERED[operator](self.column, _number(value))
        return compared


@dataclass(frozen=True)
class Choice:
    """One of a few words: that which is so called, or else those that have the value as a part."""

    column: ColumnElement[Any]
    names: Mapping[Any, str]
    """What each is called on pages, by what is stored."""
    optional: bool = False
    """Whether there may be none of them."""
    operators: Sequence[str] = (":", "=")

    def condition(self, operator: str, value: str) -> Condition:
        """Rows that have one of the words that are meant."""
        wanted = value.lower()
        if self.optional and wanted in NOTHING:
            return self.column.is_(None)
        called = {stored: {str(stored).lower(), name.lower()} for stored, name in self.names.items()}
        found = [stored for stored, names in called.items() if wanted in names]
        if not found and operator == ":":
            found = [stored for stored, names in called.items() if any(wanted in name for name in names)]
        if not found:
            raise UnreadableError(f"one of {', '.join(map(str, self.names))}")
        return self.column.in_(found)


@dataclass(frozen=True)
class Flag:
    """Yes or no."""

    column: ColumnElement[Any]
    operators: Sequence[str] = (":", "=")

    def condition(self, operator: str, value: str) -> Condition:
        """Rows that say so."""
        if value.lower() in ("yes", "true"):
            return self.column.is_(True)
        if value.lower() in ("no", "false"):
            return self.column.is_(False)
        raise UnreadableError("yes or no")


@dataclass(frozen=True)
class Day:
    """A moment, compared by its day in UTC."""

    column: ColumnElement[Any]
    operators: Sequence[str] = tuple(ORDERED)

    def condition(self, operator: str, value: str) -> Condition:
        """Rows of that day, before or after it."""
        begin, end = _day(value)
        if operator in "=:":
            return and_(self.column >= begin, self.column < end)
        if operator in ("<=", ">"):
            return self.column < end if operator == "<=" else self.column >= end
        return self.column < begin if operator == "<" else self.column >= begin


def _number(value: str) -> float:
    if "_" in value:  # which Python reads past
        raise UnreadableError("a number")
    try:
        number = float(value.translate(MINUS))
    except ValueError as error:
        raise UnreadableError("a number") from error
    if not math.isfinite(number):
        raise UnreadableError("a finite number")
    return number


def _day(value: str) -> tuple[datetime, datetime]:
    """Its beginning and its end."""
    try:
        day = date.fromisoformat(value.translate(MINUS))
    except ValueError as error:
        raise UnreadableError("a day such as 2026-01-31") from error
    begin = datetime.combine(min(day, LATEST), time(), UTC)
    return begin, begin + timedelta(days=1)
