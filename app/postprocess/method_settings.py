"""A method of post-processing with all its parameters, checked against the rows, and its sliders."""

import sys
from collections.abc import Mapping
from contextlib import suppress
from math import ceil, floor, inf, log10
from typing import Any, NamedTuple

from app.core.names import describe_method
from app.db.models import Embedding
from isoscope.core.errors import InvalidError
from isoscope.core.formatting import short
from isotropy.catalog import METHODS, MethodEntry, MethodParameter

DRAWN_ROWS = 20_000
"""Rows that a trial takes of an embedding at most: ``isotropy.cloud.PAIR_ROWS``."""


class MethodSettings(NamedTuple):
    """A method of the catalog with all of its parameters."""

    method: str
    parameters: dict[str, int | float]

    @property
    def title(self) -> str:
        return describe_method(self.method, self.parameters)


def rows_of(embedding: Embedding) -> tuple[int, int]:
    """Return the rows that a trial takes of a measured embedding, and how many of them a method is fitted on."""
    rows = min(embedding.n_measured, DRAWN_ROWS)
    return rows, min(max(round(rows / 2), 1), max(rows - 1, 1))


def method_settings_of(embedding: Embedding, method: str, values: Mapping[str, Any]) -> MethodSettings:
    """Check a method and some of its parameters against the rows. Raises InvalidError."""
    if method not in METHODS:
        raise InvalidError(f"Expected a method among {', '.join(METHODS)}, got {method[:80]!r}.", "method")
    parameters = {parameter.name: parameter for parameter in METHODS[method].parameters}
    if unknown := sorted(values.keys() - parameters.keys()):
        raise InvalidError(
            f"Expected parameters of {METHODS[method].name} among {', '.join(parameters) or 'none'}, got "
            f"{unknown[0][:80]!r}: leave it out.",
            "parameters",
        )
    return MethodSettings(
        method, {name: _value(embedding, parameter, values.get(name)) for name, parameter in parameters.items()}
    )


def _value(embedding: Embedding, parameter: MethodParameter, entered: Any) -> int | float:
    fit_rows, d = rows_of(embedding)[1], embedding.d or 0
    value = parameter.default_for(d) if entered is None else entered
    if parameter.is_integer and isinstance(value, float) and value.is_integer():
        value = int(value)
    elif not parameter.is_integer and isinstance(value, int) and abs(value) > sys.float_info.max:
        value = inf if value > 0 else -inf
    high = parameter.high_for(fit_rows, d)
    if entered is None and high is not None:
        value = min(value, high)
    if not parameter.takes(value) or (high is not None and value > high):
        numbers = "a whole number" if parameter.is_integer else "a number"
        to = "upwards" if high is None else f"to {high:,}"
        why = {"n": f": a method is fitted on {fit_rows:,} rows", "d": f": there are {d:,} dimensions"}
        raise InvalidError(
            f"Expected {parameter.name} as {numbers} from {short(parameter.low)} {to}"
            f"{why.get(parameter.up_to or '', '')}; got {str(value)[:40]}.",
            parameter.name,
        )
    return value if parameter.is_integer else float(value)


SLIDER_MOST = 50
"""A slider of whole numbers ends here, or at four times what is usual; the box takes all that is allowed."""
DECADES_BELOW, DECADES_ABOVE = 4, 2
"""How far a slider reaches around the mean variance of a dimension, for what is added to variances."""
SEED = "seed"


class Slider(NamedTuple):
    """The ends and steps of a slider; of powers of ten where the values span decades."""

    low: float
    high: float
    step: float
    at: float
    log: bool


class Dial(NamedTuple):
    """A parameter, what its box says, its bounds, and its slider if it has one."""

    parameter: MethodParameter
    text: str
    high: int | float | None
    slider: Slider | None


def dials_of(embedding: Embedding, method: MethodEntry, texts: Mapping[str, str]) -> list[Dial]:
    fit_rows, d = rows_of(embedding)[1], embedding.d or 0
    dials = []
    for parameter in method.parameters:
        usual, high = parameter.default_for(d), parameter.high_for(fit_rows, d)
        text = texts.get(parameter.name, "") or str(usual if high is None else min(usual, high))
        slider = None if parameter.name == SEED else _slider(embedding, parameter, text, high)
        dials.append(Dial(parameter, text, high, slider))
    return dials


def numbers_of(method: MethodEntry, texts: Mapping[str, str]) -> dict[str, int | float]:
    """Return the numbers that were typed; what is empty or of another method is left out. Raises InvalidError."""
    numbers: dict[str, int | float] = {}
    for parameter in method.parameters:
        if text := texts.get(parameter.name, "").strip():
            try:
                numbers[parameter.name] = int(text) if text.lstrip("+-").isdecimal() else float(text)
            except ValueError:
                raise InvalidError(f"Enter a number, not {text[:40]!r}.", parameter.name) from None
    return numbers


def mean_variance(embedding: Embedding) -> float | None:
    """Return the average variance of a dimension; None where there is none."""
    spectrum = next((measurement for measurement in embedding.measurements if measurement.measure == "spectrum"), None)
    eigenvalues = (spectrum.detail or {}).get("eigenvalues", []) if spectrum else []
    return sum(eigenvalues) / len(eigenvalues) if sum(eigenvalues) > 0 else None


def _slider(embedding: Embedding, parameter: MethodParameter, text: str, high: int | float | None) -> Slider:
    value = None
    with suppress(ValueError):
        value = float(text) if 0 <= float(text) < inf else None
    if parameter.is_integer:
        usual = parameter.default_for(embedding.d or 0)
        maximum = max(SLIDER_MOST, 4 * usual)
        maximum = maximum if high is None else min(maximum, high)
        return Slider(parameter.low, maximum, 1, value if value is not None else usual, log=False)
    # Powers of ten at the ends: of the range if it has two, else around the mean variance and the default.
    if parameter.low > 0 and parameter.high is not None:
        first, last = log10(parameter.low), log10(parameter.high)
    else:
        around, usual_decade = log10(mean_variance(embedding) or 1), log10(parameter.default or 1)
        first, last = min(around - DECADES_BELOW, usual_decade), max(around + DECADES_ABOVE, usual_decade)
    return Slider(floor(first), ceil(last), 0.05, round(log10(value), 2) if value else floor(first), log=True)
