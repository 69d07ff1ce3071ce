"""What pydantic finds wrong with one value, as a sentence."""

import re
from collections.abc import Mapping
from typing import Any

LONGEST_SHOWN = 80
NUMBER = re.compile(r"-?\d{1,20}(\.\d{1,20})?", re.ASCII)

# By the type of pydantic's error, with the names of its context.
EXPECTED = {
    "less_than": "below {lt}",
    "less_than_equal": "up to {le}",
    "greater_than": "above {gt}",
    "greater_than_equal": "of at least {ge}",
    "finite_number": "as a finite number",
    "float_parsing": "as a number",
    "float_type": "as a number",
    "int_parsing": "as a whole number",
    "int_parsing_size": "as a smaller whole number",
    "int_type": "as a whole number",
    "int_from_float": "as a whole number",
    "bool_parsing": "as true or false",
    "string_too_long": "of at most {max_length} characters",
    "literal_error": "as {expected}",
    "enum": "as {expected}",
}
MISSING = "missing"


def sentence_of(error: Mapping[str, Any], place: str) -> str:
    """What was expected at that place and what came; of rarer errors pydantic's own words."""
    came = error.get("input")
    got = f", got {_shown(came)}" if isinstance(came, str | int | float | bool) else ""
    if place and error["type"] == MISSING:
        return f"Expected {place}, got nothing."
    if place and error["type"] in EXPECTED:
        context = {name: _told(value) for name, value in error.get("ctx", {}).items()}
        return f"Expected {place} {EXPECTED[error['type']].format_map(context)}{got}."
    message = str(error["msg"]).removeprefix("Value error, ").rstrip(".")
    return f"{place}: {message}{got}." if place else f"{message}{got}."


def _told(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).replace("'", "")


def _shown(came: str | float | bool) -> str:
    """A number as it is, also where it came as text; any other text between quotes, cut short."""
    return came if isinstance(came, str) and NUMBER.fullmatch(came) else f"{came!r:.{LONGEST_SHOWN}}"
