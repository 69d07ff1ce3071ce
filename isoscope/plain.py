"""Convert values to numbers and text that databases, files and pages can hold."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from isoscope.core.formatting import one_line

MIN_NUMBER, MAX_NUMBER = 1e-100, 1e100  # Absolute values, whose squares fit into float64
MAX_INTEGER = 2**53  # Browsers round larger ones
LONGEST_NUMBER, LONGEST_WORD, LONGEST_LINE = 40, 64, 1000  # Characters

V = TypeVar("V")


def require_bounded(value: V) -> V:
    """Return the value; raise ValueError for a number whose square over- or underflows or that browsers would round."""
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise ValueError(f"expected a whole number up to 2 to the power of 53, got {str(value)[:LONGEST_NUMBER]}")
    if isinstance(value, float) and value and not MIN_NUMBER <= abs(value) <= MAX_NUMBER:
        raise ValueError(f"expected a number of a size from {MIN_NUMBER:g} to {MAX_NUMBER:g}, or 0, got {value:g}")
    return value


def to_json_value(value: Any) -> Any:
    """Convert a value to JSON. One-element arrays become numbers; what the dashboard cannot hold otherwise, text."""
    if isinstance(value, Mapping):
        return {_to_text(name): to_json_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(item) for item in value]
    try:
        value = value.item() if hasattr(value, "item") else value
    except Exception:  # noqa: BLE001 - each library raises its own error for arrays of several elements
        value = str(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) <= MAX_INTEGER else str(int(value))
    if isinstance(value, float):
        return float(value) if not value or MIN_NUMBER <= abs(value) <= MAX_NUMBER else str(float(value))
    return _to_text(value)


def to_json_list(values: Any) -> list[Any]:
    """Convert a list, array or tensor to a list of JSON values."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    return [to_json_value(value) for value in values]


def to_number(value: Any, name: str, reasons: list[str]) -> float | None:
    """Return a number that the dashboard can hold, tiny ones as 0, or None; append why unless the value is None."""
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        number = math.nan
    if abs(number) <= MAX_NUMBER:
        return number if abs(number) >= MIN_NUMBER else 0.0
    problem = "not a number" if math.isnan(number) else "infinite" if math.isinf(number) else f"beyond {MAX_NUMBER:g}"
    reasons.append(f"{name} is {problem}")
    return None


def to_layer_numbers(measure: str, values: Sequence[Any], reasons: list[str]) -> list[float | None]:
    """Return a number for each layer; append a reason for each undefined one, unless it is None."""
    return [to_number(value, f"{measure} of layer {layer}", reasons) for layer, value in enumerate(values, 1)]


def to_line(text: object) -> str:
    """Return text on one line, cut to ``LONGEST_LINE`` characters."""
    return one_line(_to_text(text))[:LONGEST_LINE]


def to_snake_case(name: object) -> str:
    """Convert a name to the dashboard's spelling: rougeL becomes rouge_l, and 2fold becomes n_2fold."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", str(name))
    word = re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")
    return (word if word[:1].isalpha() else f"n_{word}")[:LONGEST_WORD]


def _to_text(value: Any) -> str:
    """Return the value as text, with NUL and lone surrogates escaped, which databases refuse."""
    try:
        text = str(value)
    except Exception as error:  # noqa: BLE001 - a foreign __str__ can raise anything
        text = f"<{type(value).__name__}: {type(error).__name__}>"
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
