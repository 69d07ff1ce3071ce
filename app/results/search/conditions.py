"""From a search to conditions on rows: the fields that it names, and parameters, never SQL.

A search consists of words and conditions; a grammar reads it.
"""

from collections.abc import Iterator, Mapping, Sequence
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
from app.db.options.regularization import NAMES
from app.results.search.kinds import Choice, Condition, Day, Flag, Kind, Number, Tags, Text, UnreadableError
from isoscope.core.errors import InvalidError
from isoscope.core.task import Metric

MAX_CHARACTERS = 4000
"""Room for the ids of 100 experiments."""
MAX_VALUES = 100
"""More make a statement that SQLite refuses."""

GRAMMAR = r"""
start: term*
?term: _MINUS bare -> without
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


class Value(NamedTuple):
    """A value as it is typed, and the character at which it begins, counted from 1."""

    text: str
    place: int
    quoted: bool = False


class Term(NamedTuple):
    """A condition on a field, or words where there is no field; one of the values is enough."""

    field: str
    operator: str
    values: list[Value]
    place: int
    negated: bool = False


def read(q: str) -> list[Term]:
    """The terms of a search; a run must match all of them."""
    if len(q) > MAX_CHARACTERS:
        raise InvalidError(f"Expected a search of at most {MAX_CHARACTERS} characters, got {len(q)}.", "q")
    if "\0" in q or any("\ud800" <= character <= "\udfff" for character in q):
        raise InvalidError("Expected a search in text, got a character that no text has.", "q")
    try:
        terms: list[Term] = _Terms().transform(_parser().parse(q))
    except UnexpectedInput as error:
        raise InvalidError(_complaint(q, error), "q") from error
    if (values := sum(len(term.values) for term in terms)) > MAX_VALUES:
        raise InvalidError(f"Expected at most {MAX_VALUES} words and values in a search, got {values}.", "q")
    return terms


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr")


class _Terms(Transformer[Token, list[Term]]):
    """From the tree to terms."""

    def start(self, terms: list[Term]) -> list[Term]:
        return terms

    def without(self, terms: list[Term]) -> Term:
        return terms[0]._replace(negated=True)

    def condition(self, tokens: list[Token]) -> Term:
        field, operator, *values = tokens
        return Term(str(field), str(operator), [_value(one) for one in values], _place(field))

    def words(self, tokens: list[Token]) -> Term:
        return Term("", ":", [_value(one) for one in tokens], _place(tokens[0]))


def _value(token: Token) -> Value:
    text = str(token)
    if token.type == "QUOTED":
        characters = iter(text[1:-1])
        text = "".join(next(characters, "") if one == "\\" else one for one in characters)
    return Value(text, _place(token), token.type == "QUOTED")


def _place(token: Token) -> int:
    return (token.start_pos or 0) + 1


def _complaint(q: str, error: UnexpectedInput) -> str:
    ended = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    at = len(q) if ended else error.pos_in_stream or 0
    if q[at : at + 1] == '"':
        return f"The quotes at character {at + 1} are not closed; close them."
    known: Any = getattr(error, "accepts", None) or getattr(error, "allowed", None) or ()
    wanted = "a value" if "VALUE" in known else "a word or a condition such as lam<0"
    got = "the end" if ended else f"{q[at]!r}; put quotes round a name that contains it"
    return f"Expected {wanted} at character {at + 1} of the search, got {got}."


OTHERWISE = {"task": "kind"}
"""Settings that are called otherwise here: a task is what its data set is called, not classification."""


def _kind(name: str, of: type, *, optional: bool) -> Kind | None:
    stored = Run.config[name]
    if issubclass(of, bool):
        return Flag(stored.as_boolean())
    if issubclass(of, int | float):
        return Number(stored.as_float())
    if issubclass(of, StrEnum):
        return Choice(stored.as_string(), {one.value: one.value.replace("_", " ") for one in of}, optional=optional)
    return Text(stored.as_string()) if issubclass(of, str) else None


def _settings() -> Iterator[tuple[str, Kind]]:
    for name, field in TrainingOptions.model_fields.items():
        of = single_type(field.annotation)
        if of is not None and (kind := _kind(name, of, optional=field.default is None)):
            yield OTHERWISE.get(name, name), kind


FIELDS: Mapping[str, Kind] = {
    **dict(_settings()),
    "task": Text(Dataset.name.expression),
    "experiment": Text(Experiment.name.expression, Experiment.id.expression),
    "model": Text(Run.model.expression),
    "regularizer": Choice(Run.regularizer.expression, NAMES),
    "lam": Number(Run.lam.expression),
    "zeta": Number(Run.zeta.expression),
    "seed": Number(Run.seed.expression),
    "status": Choice(Run.status.expression, {one: one.value for one in RunStatus}),
    "isoscore_star": Number(Run.isoscore_star.expression),
    "performance": Number(Run.performance.expression),
    **{
        metric.value: Number(case((Run.config["metric"].as_string() == metric.value, Run.performance.expression)))
        for metric in Metric
    },
    "tag": Tags(Run.id.expression, RunTag.run_id.expression, RunTag.tag.expression),
    "launched": Day(Experiment.created_at.expression),
}
"""By name; of runs joined with their experiment and its data set. A metric is the performance of runs that have it."""

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

ANYWHERE = (FIELDS["experiment"], FIELDS["task"], FIELDS["model"])
"""Where words are looked for that name no field."""


def find_field(name: str) -> Kind | None:
    """The field that is so called, whatever the case."""
    lowered = name.lower()
    return FIELDS.get(ALIASES.get(lowered, lowered))


def conditions(q: str) -> list[Condition]:
    """What must hold of runs that are joined with their experiment and data set. Raises InvalidError of ``q``."""
    return [_condition(term) for term in read(q)]


def sort_column(name: str) -> ColumnElement[Any]:
    """What a field is sorted by. Raises InvalidError of ``sort``."""
    if (kind := find_field(name)) is None:
        raise InvalidError(f"Expected a field to sort by, got {name!r}; {_meant(name)}", "sort")
    return kind.column


OTHER_LANGUAGES = {
    "AND": "leave it out, as all conditions must hold",
    "OR": "put commas between values, such as seed:0,1",
    "NOT": "put a hyphen before what must not hold, such as -status:failed",
}
"""What other searches write between conditions, and what to write here."""

INEQUALITIES = ("<", "<=", ">", ">=")


def _condition(term: Term) -> Condition:
    if not term.field:
        _require_words(term.values)
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
    if operator in INEQUALITIES and len(term.values) > 1:
        raise InvalidError(
            f"Expected one value after {term.field}{operator} at character {term.values[0].place} of the search, got "
            f"{len(term.values)}; write decimals with a point.",
            "q",
        )
    found = or_(*(_compared(kind, operator, term, value) for value in term.values))
    if differs == term.negated:
        return found
    # A comparison with nothing is neither true nor false to a database; here it does not hold.
    return not_(func.coalesce(found, false()))


def _require_words(values: Sequence[Value]) -> None:
    for value in values:
        if not value.quoted and (instead := OTHER_LANGUAGES.get(value.text)):
            raise InvalidError(
                f"{value.text} at character {value.place} of the search has no meaning: {instead}. Quote it as a word.",
                "q",
            )


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
