"""Kinds of search fields. Each compares typed values with a column."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from operator import eq, ge, gt, le, lt
from typing import Any, Protocol

from sqlalchemy import ColumnElement, and_, func, select

Condition = ColumnElement[bool]

COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {"<": lt, "<=": le, ">": gt, ">=": ge, "=": eq, ":": eq}
NO_VALUE = ("none", "default", "unknown")
"""Words for a missing value."""
MINUS = str.maketrans("−", "-")
"""Users paste numbers from pages, which print a minus sign instead of a hyphen."""
LATEST_DAY = date(9998, 12, 31)


class UnreadableError(ValueError):
    """Raised for a value that a field cannot have. The message names valid values, to complete "Expected ..."."""


class FieldKind(Protocol):
    """A search field: its operators, its sort column and its conditions."""

    @property
    def operators(self) -> Sequence[str]:
        """Return the supported operators, except ``!=``."""

    @property
    def column(self) -> ColumnElement[Any]:
        """Return the column to sort by."""

    def condition(self, operator: str, value: str) -> Condition:
        """Return the SQL condition for a typed value. Raise UnreadableError if the value is invalid."""


@dataclass(frozen=True)
class TextField:
    """Text that contains the typed value or, with ``=``, equals it, ignoring case."""

    text: ColumnElement[Any]
    id_column: ColumnElement[Any] | None = None
    """A column of ids. A search also finds a row whose id is the value; None if rows have no ids."""
    operators: Sequence[str] = (":", "=")

    @property
    def column(self) -> ColumnElement[Any]:
        return func.lower(self.text)

    def condition(self, operator: str, value: str) -> Condition:
        if operator == ":":
            matches: Condition = self.text.icontains(value, autoescape=True)
        else:
            matches = func.lower(self.text) == func.lower(value)
        return matches if self.id_column is None else matches | (self.id_column == value)


@dataclass(frozen=True)
class TagsField:
    """Tags in a separate table. At least one must match, as in TextField; ``:none`` finds rows without tags."""

    row_id: ColumnElement[Any]
    tagged_row_id: ColumnElement[Any]
    tag: ColumnElement[Any]
    operators: Sequence[str] = (":", "=")

    @property
    def column(self) -> ColumnElement[Any]:
        return select(func.min(func.lower(self.tag))).where(self.tagged_row_id == self.row_id).scalar_subquery()

    def condition(self, operator: str, value: str) -> Condition:
        tags = select(self.tag).where(self.tagged_row_id == self.row_id)
        if value.lower() in NO_VALUE and operator == ":":
            return ~tags.exists()
        if operator == ":":
            return tags.where(self.tag.icontains(value, autoescape=True)).exists()
        return tags.where(func.lower(self.tag) == func.lower(value)).exists()


@dataclass(frozen=True)
class NumberField:
    """An optional number."""

    column: ColumnElement[Any]
    operators: Sequence[str] = tuple(COMPARISONS)

    def condition(self, operator: str, value: str) -> Condition:
        if value.lower() in NO_VALUE and operator in ("=", ":"):
            return self.column.is_(None)
        if "_" in value:  # which float() accepts
            raise UnreadableError("a number")
        try:
            number = float(value.translate(MINUS))
        except ValueError as error:
            raise UnreadableError("a number") from error
        if not math.isfinite(number):
            raise UnreadableError("a finite number")
        condition: Condition = COMPARISONS[operator](self.column, number)
        return condition


@dataclass(frozen=True)
class ChoiceField:
    """One of a few words: the one that equals the typed value or, with ``:``, those that contain it."""

    column: ColumnElement[Any]
    names: Mapping[Any, str]  # by stored value; a search may have either
    optional: bool = False  # the column may be null
    operators: Sequence[str] = (":", "=")

    def condition(self, operator: str, value: str) -> Condition:
        query = value.lower()
        if self.optional and query in NO_VALUE:
            return self.column.is_(None)
        spellings = {stored: {str(stored).lower(), name.lower()} for stored, name in self.names.items()}
        matching_values = [stored for stored, names in spellings.items() if query in names]
        if not matching_values and operator == ":":
            matching_values = [stored for stored, names in spellings.items() if any(query in name for name in names)]
        if not matching_values:
            raise UnreadableError(f"one of {', '.join(map(str, self.names))}")
        return self.column.in_(matching_values)


@dataclass(frozen=True)
class FlagField:
    """A yes or no."""

    column: ColumnElement[Any]
    operators: Sequence[str] = (":", "=")

    def condition(self, operator: str, value: str) -> Condition:
        if value.lower() in ("yes", "true"):
            return self.column.is_(True)
        if value.lower() in ("no", "false"):
            return self.column.is_(False)
        raise UnreadableError("yes or no")


@dataclass(frozen=True)
class DayField:
    """A time, compared by its day in UTC."""

    column: ColumnElement[Any]
    operators: Sequence[str] = tuple(COMPARISONS)

    def condition(self, operator: str, value: str) -> Condition:
        try:
            day = date.fromisoformat(value.translate(MINUS))
        except ValueError as error:
            raise UnreadableError("a day such as 2026-01-31") from error
        begin = datetime.combine(min(day, LATEST_DAY), time(), UTC)
        end = begin + timedelta(days=1)
        if operator in ("=", ":"):
            return and_(self.column >= begin, self.column < end)
        if operator in ("<=", ">"):
            return self.column < end if operator == "<=" else self.column >= end
        return self.column < begin if operator == "<" else self.column >= begin
