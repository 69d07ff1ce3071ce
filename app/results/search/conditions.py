"""Parse a search of words and conditions, and turn it into SQL conditions with bound parameters."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedInput, UnexpectedToken
from sqlalchemy import ColumnElement, case, false, func, not_, or_

from app.db.config import TrainingOptions
from app.db.models import Dataset, Experiment, Run, RunStatus, RunTag
from app.db.options.option import single_type
from app.db.options.regularization import REGULARIZER_NAMES
from app.results.search.kinds import (
    ChoiceField,
    Condition,
    DayField,
    FieldKind,
    FlagField,
    NumberField,
    TagsField,
    TextField,
    UnreadableError,
)
from isoscope.core.errors import InvalidError
from isoscope.core.task import Metric

MAX_CHARACTERS = 4000
"""Maximum length of a search, enough for the ids of 100 experiments."""
MAX_VALUES = 100
"""Maximum number of words and values in a search, because SQLite limits the parameters of a statement."""

GRAMMAR = r"""
start: term*
?term: _MINUS bare -> negation
     | bare
?bare: FIELD OPERATOR _value ("," _value)* -> condition
     | _word ("," _word)* -> words
_value: VALUE | QUOTED
_word: WORD | QUOTED

_MINUS: /-(?=\S)/
OPERATOR: "<=" | ">=" | "!=" | ":" | "=" | "<" | ">"
FIELD.2: /[^\W\d]\w*(?=\s*(?:[:=<>]|!=))/
QUOTED.2: /"(?:[^"\\]|\\.)*"/s
WORD: /[^\s",:=<>!-][^\s",=<>]*/
VALUE: /[^\s",][^\s",]*/

%ignore /\s+/
"""


class SearchValue(NamedTuple):
    """A typed value and the position of its first character in the search, from 1."""

    text: str
    position: int
    quoted: bool = False


class SearchTerm(NamedTuple):
    """A condition on a field or, if the field is empty, words to find in any. One of the values must match."""

    field: str
    operator: str
    values: list[SearchValue]
    position: int
    negated: bool = False


def parse_search(q: str) -> list[SearchTerm]:
    """Split a search into terms. A run has to match all of them. Raise InvalidError for ``q``."""
    if len(q) > MAX_CHARACTERS:
        raise InvalidError(f"Expected a search of at most {MAX_CHARACTERS} characters, got {len(q)}.", "q")
    if "\0" in q or any("\ud800" <= character <= "\udfff" for character in q):
        raise InvalidError("Expected a search in text, got a character that no text has.", "q")
    try:
        terms: list[SearchTerm] = _TermTransformer().transform(_parser().parse(q))
    except UnexpectedInput as error:
        at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
        position = len(q) if at_end else error.pos_in_stream or 0
        if q[position : position + 1] == '"':
            message = f"The quotes at character {position + 1} are not closed; close them."
        else:
            accepted: Any = getattr(error, "accepts", None) or getattr(error, "allowed", None) or ()
            expected = "a value" if "VALUE" in accepted else "a word or a condition such as lam<0"
            actual = "the end" if at_end else f"{q[position]!r}; put quotes round a name that contains it"
            message = f"Expected {expected} at character {position + 1} of the search, got {actual}."
        raise InvalidError(message, "q") from error
    if (n_values := sum(len(term.values) for term in terms)) > MAX_VALUES:
        raise InvalidError(f"Expected at most {MAX_VALUES} words and values in a search, got {n_values}.", "q")
    return terms


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr")


class _TermTransformer(Transformer[Token, list[SearchTerm]]):
    def start(self, terms: list[SearchTerm]) -> list[SearchTerm]:
        return terms

    def negation(self, terms: list[SearchTerm]) -> SearchTerm:
        return terms[0]._replace(negated=True)

    def condition(self, tokens: list[Token]) -> SearchTerm:
        field, operator, *values = tokens
        return SearchTerm(str(field), str(operator), [_parse_value(token) for token in values], _position_of(field))

    def words(self, tokens: list[Token]) -> SearchTerm:
        return SearchTerm("", ":", [_parse_value(token) for token in tokens], _position_of(tokens[0]))


def _parse_value(token: Token) -> SearchValue:
    text = str(token)
    if token.type == "QUOTED":
        characters = iter(text[1:-1])
        # A backslash stands for the character after it.
        text = "".join(next(characters, "") if letter == "\\" else letter for letter in characters)
    return SearchValue(text, _position_of(token), token.type == "QUOTED")


def _position_of(token: Token) -> int:
    return (token.start_pos or 0) + 1


OPTION_NAMES = {"task": "kind"}
"""Search names of options whose name has another meaning: ``task`` searches the name of the data set."""


def _list_option_fields() -> Iterator[tuple[str, FieldKind]]:
    for option, field in TrainingOptions.model_fields.items():
        value_type = single_type(field.annotation)
        name, json_value = OPTION_NAMES.get(option, option), Run.config[option]
        if value_type is None:
            continue
        if issubclass(value_type, bool):
            yield name, FlagField(json_value.as_boolean())
        elif issubclass(value_type, int | float):
            yield name, NumberField(json_value.as_float())
        elif issubclass(value_type, StrEnum):
            names = {member.value: member.value.replace("_", " ") for member in value_type}
            yield name, ChoiceField(json_value.as_string(), names, optional=field.default is None)
        elif issubclass(value_type, str):
            yield name, TextField(json_value.as_string())


FIELDS: Mapping[str, FieldKind] = {
    **dict(_list_option_fields()),
    "task": TextField(Dataset.name.expression),
    "experiment": TextField(Experiment.name.expression, Experiment.id.expression),
    "model": TextField(Run.model.expression),
    "regularizer": ChoiceField(Run.regularizer.expression, REGULARIZER_NAMES),
    "lam": NumberField(Run.lam.expression),
    "zeta": NumberField(Run.zeta.expression),
    "seed": NumberField(Run.seed.expression),
    "status": ChoiceField(Run.status.expression, {status: status.value for status in RunStatus}),
    "isoscore_star": NumberField(Run.isoscore_star.expression),
    "performance": NumberField(Run.performance.expression),
    **{
        metric.value: NumberField(case((Run.config["metric"].as_string() == metric.value, Run.performance.expression)))
        for metric in Metric
    },
    "tag": TagsField(Run.id.expression, RunTag.run_id.expression, RunTag.tag.expression),
    "launched": DayField(Experiment.created_at.expression),
}
"""Search fields of runs joined with experiment and data set. A metric is the performance of runs that use it."""

ALIASES: Mapping[str, str] = {
    "data": "task",
    "dataset": "task",
    "reg": "regularizer",
    "lambda": "lam",
    "λ": "lam",
    "ζ": "zeta",
    "iso": "isoscore_star",
    "perf": "performance",
    "acc": "accuracy",
    "date": "launched",
}

WORD_FIELDS = (FIELDS["experiment"], FIELDS["task"], FIELDS["model"])
"""Fields in which words without a field are searched."""


def find_field(name: str) -> FieldKind | None:
    lowercase_name = name.lower()
    return FIELDS.get(ALIASES.get(lowercase_name, lowercase_name))


def parse_conditions(q: str) -> list[Condition]:
    """Return the conditions on runs joined with experiment and data set. Raise InvalidError for ``q``."""
    return [_term_condition(term) for term in parse_search(q)]


def sort_column(name: str) -> ColumnElement[Any]:
    """Return the column to sort by for a field or an alias. Raise InvalidError for ``sort`` if there is none."""
    if (kind := find_field(name)) is None:
        raise InvalidError(f"Expected a field to sort by, got {name!r}; {_suggest_fields(name)}", "sort")
    return kind.column


OTHER_LANGUAGES = {
    "AND": "leave it out, because all conditions must hold",
    "OR": "put commas between values, such as seed:0,1",
    "NOT": "put a hyphen before what must not hold, such as -status:failed",
}
"""Operators of other search languages, and their replacements."""

INEQUALITIES = ("<", "<=", ">", ">=")


def _term_condition(term: SearchTerm) -> Condition:
    if not term.field:
        for value in term.values:
            if not value.quoted and (replacement := OTHER_LANGUAGES.get(value.text)):
                raise InvalidError(
                    f"{value.text} at character {value.position} of the search has no meaning: {replacement}. "
                    "Quote it as a word.",
                    "q",
                )
        condition = or_(*(kind.condition(":", value.text) for value in term.values for kind in WORD_FIELDS))
        return not_(condition) if term.negated else condition
    if (kind := find_field(term.field)) is None:
        raise InvalidError(
            f"There is no field {term.field!r}, at character {term.position} of the search; "
            f"{_suggest_fields(term.field)} Quote words that are not fields.",
            "q",
        )
    is_unequal = term.operator == "!="
    operator = "=" if is_unequal else term.operator
    if operator not in kind.operators:
        raise InvalidError(
            f"{term.field} at character {term.position} of the search is compared with "
            f"{', '.join(kind.operators)} or !=, got {term.operator}.",
            "q",
        )
    if operator in INEQUALITIES and len(term.values) > 1:
        raise InvalidError(
            f"Expected one value after {term.field}{operator} at character {term.values[0].position} of the search, "
            f"got {len(term.values)}; write decimals with a point.",
            "q",
        )
    condition = or_(*(_compare_value(kind, operator, term, value) for value in term.values))
    if is_unequal == term.negated:  # neither, or both, which cancel out
        return condition
    # In SQL, a comparison with NULL is NULL, and so is its negation. Count it as false, so that the negation matches.
    return not_(func.coalesce(condition, false()))


def _compare_value(kind: FieldKind, operator: str, term: SearchTerm, value: SearchValue) -> Condition:
    try:
        return kind.condition(operator, value.text)
    except UnreadableError as error:
        raise InvalidError(
            f"Expected {error} after {term.field}{term.operator} at character {value.position} of the search, "
            f"got {value.text!r}.",
            "q",
        ) from error


def _suggest_fields(name: str) -> str:
    suggestions = get_close_matches(name.lower(), FIELDS)
    return f"did you mean {' or '.join(suggestions)}?" if suggestions else f"fields are {', '.join(sorted(FIELDS))}."
