"""What is typed into a search: words and conditions, read by a grammar."""

from functools import cache
from typing import Any, NamedTuple

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedInput, UnexpectedToken

from isoscope.core.errors import InvalidError

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
    return Value(text, _place(token))


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
