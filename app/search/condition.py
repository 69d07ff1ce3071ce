"""From a search to conditions on rows. What is typed becomes parameters, never SQL."""

from difflib import get_close_matches
from typing import Any

from sqlalchemy import ColumnElement, false, func, not_, or_

from app.search.fields import ANYWHERE, FIELDS, find_field
from app.search.kinds import Condition, Kind, UnreadableError
from app.search.language import Term, Value, read
from isoscope.core.errors import InvalidError


def conditions(q: str) -> list[Condition]:
    """What must hold of runs that are joined with their experiment and data set. Raises InvalidError of ``q``."""
    return [_condition(term) for term in read(q)]


def sort_column(name: str) -> ColumnElement[Any]:
    """What a field is sorted by. Raises InvalidError of ``sort``."""
    if (kind := find_field(name)) is None:
        raise InvalidError(f"Expected a field to sort by, got {name!r}; {_meant(name)}", "sort")
    return kind.column


def _condition(term: Term) -> Condition:
    if not term.field:
        found = or_(*(kind.condition(":", value.text) for value in term.values for kind in ANYWHERE))
        return not_(found) if term.negated else found
    kind = _field(term)
    differs = term.operator == "!="
    operator = "=" if differs else term.operator
    if operator not in kind.operators:
        raise InvalidError(
            f"{term.field} at character {term.place} of the search is compared with "
            f"{', '.join(kind.operators)} or !=, got {term.operator}.",
            "q",
        )
    found = or_(*(_compared(kind, operator, term, value) for value in term.values))
    if differs == term.negated:
        return found
    # A comparison with nothing is neither true nor false to a database; here it does not hold.
    return not_(func.coalesce(found, false()))


def _field(term: Term) -> Kind:
    if (kind := find_field(term.field)) is None:
        raise InvalidError(
            f"There is no field {term.field!r}, at character {term.place} of the search; {_meant(term.field)} "
            "Quote words that are not fields.",
            "q",
        )
    return kind


def _compared(kind: Kind, operator: str, term: Term, value: Value) -> Condition:
    try:
        return kind.condition(operator, value.text)
    except UnreadableError as error:
        raise InvalidError(
            f"Expected {error} after {term.field}{term.operator} at character {value.place} of the search, "
            f"got {value.text!r}.",
            "q",
        ) from error


def _meant(name: str) -> str:
    """The likeliest fields, or all where none is like it."""
    likely = get_close_matches(name.lower(), FIELDS)
    return f"did you mean {' or '.join(likely)}?" if likely else f"known are {', '.join(sorted(FIELDS))}."
