"""Where the lab stands: a method of post-processing with all its parameters, checked against the rows it is for."""

import sys
from collections.abc import Mapping
from math import inf
from typing import Any, NamedTuple

from app.db.models import Embedding
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import short
from isotropy.catalog import METHODS, Parameter

DRAWN_ROWS = 20_000
"""Rows that a trial takes of an embedding at most: ``isotropy.cloud.PAIR_ROWS``."""


class Position(NamedTuple):
    """A method of the catalogue with all of its parameters."""

    method: str
    parameters: dict[str, int | float]

    @property
    def title(self) -> str:
        """The method's name with its first parameter, and those that are not what they usually are."""
        return described(self.method, self.parameters)


def described(method: str, parameters: Mapping[str, Any]) -> str:
    """A method in words: Soft ZCA whitening, eps 0.1; one of another version by its slug."""
    known = METHODS.get(method)
    usual = {one.name: one.default for one in known.parameters[1:]} if known else {}
    told = [
        f"{name} {short(value)}"
        for name, value in parameters.items()
        if value is not None and (name not in usual or value != usual[name])
    ]
    return ", ".join([known.name if known else method, *told])


def rows_of(embedding: Embedding) -> tuple[int, int]:
    """How many rows of a measured embedding a trial takes, and how many of them a method is fitted on."""
    rows = min(embedding.n_measured, DRAWN_ROWS)
    return rows, min(max(round(rows / 2), 1), max(rows - 1, 1))


def position_of(embedding: Embedding, method: str, given: Mapping[str, Any]) -> Position:
    """The position that a method and some parameters name; what is not given takes its default.

    Raises:
        InvalidError: there is no such method or parameter, or a value is out of its range for these rows.

    """
    if method not in METHODS:
        raise InvalidError(f"Expected a method among {', '.join(METHODS)}, got {method[:80]!r}.", "method")
    parameters = {one.name: one for one in METHODS[method].parameters}
    if unknown := sorted(given.keys() - parameters.keys()):
        raise InvalidError(
            f"Expected parameters of {METHODS[method].name} among {', '.join(parameters) or 'none'}, got "
            f"{unknown[0][:80]!r}: leave it out.",
            "parameters",
        )
    return Position(method, {name: _value(embedding, one, given.get(name)) for name, one in parameters.items()})


def _value(embedding: Embedding, parameter: Parameter, given: Any) -> int | float:
    fit_rows, d = rows_of(embedding)[1], embedding.d or 0
    value = parameter.default_for(d) if given is None else given
    if parameter.whole and isinstance(value, float) and value.is_integer():
        value = int(value)
    elif not parameter.whole and isinstance(value, int) and abs(value) > sys.float_info.max:
        value = inf if value > 0 else -inf
    high = parameter.high_for(fit_rows, d)
    if given is None and high is not None:
        value = min(value, high)
    if not parameter.takes(value) or (high is not None and value > high):
        numbers = "a whole number" if parameter.whole else "a number"
        to = "upwards" if high is None else f"to {high:,}"
        why = {"n": f": a method is fitted on {fit_rows:,} rows", "d": f": there are {d:,} dimensions"}
        raise InvalidError(
            f"Expected {parameter.name} as {numbers} from {short(parameter.low)} {to}"
            f"{why.get(parameter.up_to or '', '')}; got {str(value)[:40]}.",
            parameter.name,
        )
    return value if parameter.whole else float(value)
