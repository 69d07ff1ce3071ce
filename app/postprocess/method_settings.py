"""The settings of a post-processing method, checked against the rows, and their sliders."""

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
"""Maximum rows that a trial samples: ``isotropy.cloud.PAIR_ROWS``."""


class MethodSettings(NamedTuple):
    """A method of the catalog with all of its parameters."""

    method: str
    parameters: dict[str, int | float]

    @property
    def title(self) -> str:
        return describe_method(self.method, self.parameters)


def count_trial_rows(embedding: Embedding) -> tuple[int, int]:
    """Return the number of rows that a trial samples, and how many of them a method is fitted on."""
    rows = min(embedding.n_measured, DRAWN_ROWS)
    # Of two or more rows, at least one is fitted on and one held out.
    return rows, min(max(round(rows / 2), 1), max(rows - 1, 1))


def check_settings(embedding: Embedding, method: str, values: Mapping[str, Any]) -> MethodSettings:
    """Check a method and its parameters against the rows, and add defaults. Raises InvalidError."""
    if method not in METHODS:
        raise InvalidError(f"Expected a method among {', '.join(METHODS)}, got {method[:80]!r}.", "method")
    parameters = {parameter.name: parameter for parameter in METHODS[method].parameters}
    if unknown_names := sorted(values.keys() - parameters.keys()):
        raise InvalidError(
            f"Expected parameters of {METHODS[method].name} among {', '.join(parameters) or 'none'}, got "
            f"{unknown_names[0][:80]!r}: leave it out.",
            "parameters",
        )
    return MethodSettings(
        method, {name: _check_value(embedding, parameter, values.get(name)) for name, parameter in parameters.items()}
    )


def _check_value(embedding: Embedding, parameter: MethodParameter, entered: Any) -> int | float:
    """Return an entered value, or the default if it is None. Raise InvalidError unless the rows allow it."""
    _, fit_rows = count_trial_rows(embedding)
    d = embedding.d or 0
    value = parameter.default_for(d) if entered is None else entered
    if parameter.is_integer and isinstance(value, float) and value.is_integer():
        value = int(value)
    elif not parameter.is_integer and isinstance(value, int) and abs(value) > sys.float_info.max:
        value = inf if value > 0 else -inf  # refused by `accepts`; float(value) would raise OverflowError
    high = parameter.high_for(fit_rows, d)
    if entered is None and high is not None:
        value = min(value, high)
    if not parameter.accepts(value) or (high is not None and value > high):
        number_kind = "a whole number" if parameter.is_integer else "a number"
        upper_bound = "upwards" if high is None else f"to {high:,}"
        reasons = {"n": f": a method is fitted on {fit_rows:,} rows", "d": f": there are {d:,} dimensions"}
        raise InvalidError(
            f"Expected {parameter.name} as {number_kind} from {short(parameter.low)} {upper_bound}"
            f"{reasons.get(parameter.bounded_by or '', '')}; got {str(value)[:40]}.",
            parameter.name,
        )
    return value if parameter.is_integer else float(value)


MIN_SLIDER_END = 50
"""A slider of whole numbers ends here, or at four times the default if that is larger. The box takes more."""
DECADES_BELOW, DECADES_ABOVE = 4, 2
"""Reach of a logarithmic slider around the mean variance of a dimension."""
SEED = "seed"


class Slider(NamedTuple):
    """The ends, step and value of a slider. If ``log``, all four are exponents of ten."""

    low: float
    high: float
    step: float
    value: float
    log: bool


class ParameterInput(NamedTuple):
    """A parameter with the text of its box, its upper bound if any, and its slider if it has one."""

    parameter: MethodParameter
    text: str
    high: int | float | None
    slider: Slider | None


def list_parameter_inputs(embedding: Embedding, method: MethodEntry, texts: Mapping[str, str]) -> list[ParameterInput]:
    """Return the inputs of a method with their texts, or the defaults where a text is empty."""
    _, fit_rows = count_trial_rows(embedding)
    d = embedding.d or 0
    inputs = []
    for parameter in method.parameters:
        default, high = parameter.default_for(d), parameter.high_for(fit_rows, d)
        text = texts.get(parameter.name, "") or str(default if high is None else min(default, high))
        slider = None if parameter.name == SEED else _make_slider(embedding, parameter, text, high)
        inputs.append(ParameterInput(parameter, text, high, slider))
    return inputs


def parse_parameters(method: MethodEntry, texts: Mapping[str, str]) -> dict[str, int | float]:
    """Parse the texts that a user entered for the parameters of a method; skip empty ones. Raises InvalidError."""
    numbers: dict[str, int | float] = {}
    for parameter in method.parameters:
        if text := texts.get(parameter.name, "").strip():
            try:
                numbers[parameter.name] = int(text) if text.lstrip("+-").isdecimal() else float(text)
            except ValueError:
                raise InvalidError(f"Enter a number, not {text[:40]!r}.", parameter.name) from None
    return numbers


def compute_mean_variance(embedding: Embedding) -> float | None:
    """Return the mean variance of a dimension; None if it is 0 or unknown."""
    spectrum = next((measurement for measurement in embedding.measurements if measurement.measure == "spectrum"), None)
    eigenvalues = (spectrum.detail or {}).get("eigenvalues", []) if spectrum else []
    return sum(eigenvalues) / len(eigenvalues) if sum(eigenvalues) > 0 else None


def _make_slider(embedding: Embedding, parameter: MethodParameter, text: str, high: int | float | None) -> Slider:
    value = None
    with suppress(ValueError):
        value = float(text) if 0 <= float(text) < inf else None
    default = parameter.default_for(embedding.d or 0)
    chosen = default if value is None else value
    if parameter.is_integer:
        maximum = max(MIN_SLIDER_END, 4 * default)
        return Slider(parameter.low, maximum if high is None else min(maximum, high), 1, chosen, log=False)
    if parameter.low == 0 and high is not None:
        return Slider(parameter.low, high, 0.05, chosen, log=False)
    # A log scale spans whole decades: the parameter's limits if it has both, else around mean variance and default.
    if parameter.low > 0 and parameter.high is not None:
        low_exponent, high_exponent = log10(parameter.low), log10(parameter.high)
    else:
        variance_decade, default_decade = log10(compute_mean_variance(embedding) or 1), log10(parameter.default or 1)
        low_exponent, high_exponent = (
            min(variance_decade - DECADES_BELOW, default_decade),
            max(variance_decade + DECADES_ABOVE, default_decade),
        )
    position = round(log10(value), 2) if value else floor(low_exponent)
    return Slider(floor(low_exponent), ceil(high_exponent), 0.05, position, log=True)
