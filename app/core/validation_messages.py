"""Sentences for validation errors of the API and of forms. Forms use labels in place of field names."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from isoscope.core.errors import FieldError, combine_errors
from isoscope.core.formatting import capitalized

ModelT = TypeVar("ModelT", bound=BaseModel)

MAX_VALUE_CHARACTERS = 80
NUMBER = re.compile(r"-?\d{1,20}(\.\d{1,20})?", re.ASCII)

# How a sentence that starts "Expected field" continues, by pydantic's error type, with keys of the error's context.
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
    "string_type": "as a text",
    "too_short": "with {min_length} or more values, got {actual_length}",
    "too_long": "with at most {max_length} values, got {actual_length}",
    "bool_type": "as true or false",
    "dict_type": "as an object",
    "list_type": "as a list",
    "literal_error": "as {expected}",
    "enum": "as {expected}",
}
# How a sentence that starts with "Enter" continues in a form. The field's label stands next to it.
FORM_EXPECTED = {
    "less_than": "a number below {lt}",
    "less_than_equal": "a number up to {le}",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "string_too_long": "at most {max_length} characters",
    "too_short": "{min_length} or more values",
    "too_long": "at most {max_length} values",
}
FORM_WORDS = (". The field is empty", ", not")  # for ``_received``
CHOICE_ERRORS = ("literal_error", "enum")
MISSING = "missing"
UNKNOWN = "extra_forbidden"
VALUE_ERROR = "value_error"

FIELD_NAME = re.compile(r"`(\w+)`")
# Union alternatives and dictionary keys in the location of a pydantic error.
ALTERNATIVE = re.compile(r"[\w-]*\[.+\]|(?:constrained-)?(?:str|int|float|bool)")
# An empty choice in a list of choices. Pages accept it, but sentences do not mention it.
EMPTY_CHOICE = re.compile(r"'', | or ''|^''$")
LIST_ITEM = re.compile(r"list\[(?:constrained-)?(int|float|str)")
LIST_WORDS = {"int": "a list of whole numbers", "float": "a list of numbers", "str": "a list of texts"}
# Errors about a value's type. Of a union, the alternatives that the user did not mean report such errors.
TYPE_ERRORS = {"list_type", "dict_type", "enum", "string_type", "int_type", "float_type", "bool_type", "literal_error"}

Error = Mapping[str, Any]
ErrorPath = Sequence[str | int]
Describe = Callable[[Error, ErrorPath], str]


class FieldMessage(NamedTuple):
    """A sentence about a value, and the path to the value: field names and list positions."""

    sentence: str
    path: list[str | int]


def dotted_path(path: ErrorPath) -> str:
    """Return the path of a value as the API names it: seeds.0."""
    return ".".join(map(str, path))


def list_messages(
    errors: Sequence[Error], known_names: Collection[str] = (), *, form: bool = False
) -> list[FieldMessage]:
    """Return one message for each invalid value. Pydantic reports one error for each alternative of a union.

    With ``form``, messages say what to enter, without the field's name. Unknown names come first, each with the most
    similar of ``known_names``. For a list, only the first invalid item is reported.
    """
    errors_by_field: dict[tuple[str, ...], list[Error]] = {}
    for error in sorted(errors, key=lambda entry: entry["type"] != UNKNOWN):
        field_names = tuple(part for part in _field_path(error) if isinstance(part, str))
        errors_by_field.setdefault(field_names, []).append(error)
    describe = describe_form_error if form else describe_error
    return [_to_message(group, known_names, describe) for group in errors_by_field.values()]


def validate_form(model: type[ModelT], values: Mapping[str, Any]) -> ModelT:
    """Return a model with the values of a form. Raise one InvalidError that names every invalid field."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        messages = list_messages(error.errors(), form=True)
        raise combine_errors(FieldError(str(path[0]), sentence) for sentence, path in messages) from error


def first_message(errors: Sequence[Error]) -> FieldMessage:
    return list_messages(errors)[0]


def with_labels(sentence: str, labels: Mapping[str, str]) -> str:
    """Replace each field name between backticks by its label, or by the bare name if it has none."""
    return FIELD_NAME.sub(lambda match: labels.get(match[1], match[1]), sentence)


def _to_message(errors: Sequence[Error], known_names: Collection[str], describe: Describe) -> FieldMessage:
    """Return the message for an invalid value from all its errors. For a union, guess which alternative was meant."""
    first = errors[0]
    path = _field_path(first)
    if first["type"] == UNKNOWN:
        name = dotted_path(path)
        similar_names = get_close_matches(name.rpartition(".")[2], known_names, n=1)
        advice = f"did you mean {similar_names[0]}?" if similar_names else "leave it out."
        return FieldMessage(f"There is no field {name:.{MAX_VALUE_CHARACTERS}}; {advice}", path)
    depth = next((index for index, part in enumerate(first["loc"]) if index and _is_alternative(part)), None)
    if depth is None:  # no union
        return FieldMessage(describe(first, path), path)
    union_errors = [error for error in errors if error["loc"][:depth] == first["loc"][:depth]]
    # An alternative was meant if the value has its type, so that the error is about an item or a limit.
    meant_errors = [
        error for error in union_errors if len(_field_path(error)) > depth or error["type"] not in TYPE_ERRORS
    ]
    if meant_errors or len(union_errors) == 1:
        error = (meant_errors or union_errors)[0]
        path = _field_path(error)
        return FieldMessage(describe(error, path), path)
    expected_kinds = ", ".join(filter(None, map(_expected_kind, union_errors)))
    if describe is describe_form_error:
        return FieldMessage(f"Enter {expected_kinds}{_received(first, *FORM_WORDS)}.", path)
    return FieldMessage(f"Expected {dotted_path(path)} as {expected_kinds}{_received(first)}.", path)


def describe_form_error(error: Error, path: ErrorPath) -> str:
    """Return a sentence that says what to enter in a field, and repeats its current value."""
    if error["type"] == MISSING:
        return "This field is empty."
    if error["type"] not in EXPECTED:
        return describe_error(error, ())
    template = FORM_EXPECTED.get(error["type"], EXPECTED[error["type"]].removeprefix("as "))
    verb = "Choose" if error["type"] in CHOICE_ERRORS else "Enter"
    return f"{verb} {template.format_map(_context_words(error))}{_received(error, *FORM_WORDS)}."


def describe_error(error: Error, path: ErrorPath) -> str:
    """Return what was expected and what was received; for rarer errors, pydantic's message."""
    name = dotted_path(path)
    if name and error["type"] == MISSING:
        return f"Expected {name}, got nothing."
    if name and error["type"] in EXPECTED:
        return f"Expected {name} {EXPECTED[error['type']].format_map(_context_words(error))}{_received(error)}."
    message = str(error["msg"]).removeprefix("Value error, ").rstrip(".")
    if error["type"] == VALUE_ERROR:
        return f"{capitalized(message)}."
    return f"{name}: {message}{_received(error)}." if name else f"{message}{_received(error)}."


def _field_path(error: Error) -> list[str | int]:
    """Return the location of an error without the names that pydantic gives to alternatives of a union."""
    return [part for index, part in enumerate(error["loc"]) if not (index and _is_alternative(part))]


def _is_alternative(part: str | int) -> bool:
    return isinstance(part, str) and ALTERNATIVE.fullmatch(part) is not None


def _context_words(error: Error) -> dict[str, str]:
    """Return the words for the placeholders in ``EXPECTED``, such as a limit or the choices."""
    return {
        name: f"{value:g}" if isinstance(value, float) else EMPTY_CHOICE.sub("", str(value)).replace("'", "")
        for name, value in error.get("ctx", {}).items()
    }


def _expected_kind(error: Error) -> str:
    """Return what one alternative of a union expects: a list of numbers, a whole number."""
    items = LIST_ITEM.search(str(error["loc"][-1]))
    if error["type"] == "list_type":
        return LIST_WORDS[items[1]] if items else "a list"
    return EXPECTED[error["type"]].format_map(_context_words(error)).removeprefix("as ")


def _received(error: Error, empty: str = ", got nothing", prefix: str = ", got") -> str:
    """Return the end of a sentence that repeats the value: numbers unquoted, text quoted and cut, "" for the rest."""
    value = error.get("input")
    if value == "":
        return empty
    if not isinstance(value, str | int | float | bool):
        return ""
    is_number = isinstance(value, str) and NUMBER.fullmatch(value)
    return f"{prefix} {value}" if is_number else f"{prefix} {value!r:.{MAX_VALUE_CHARACTERS}}"
