"""What the catalogue says of a measure."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Group = Literal["spread", "directions", "neighbours", "topology", "labels"]

INTERVAL = re.compile(r"[\[(]([^\];]+)(?:[\])]|\][;,][^\[]*)")
OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {"log": math.log, "min": min, "max": max, "sqrt": math.sqrt}


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A measure, described in plain text. X is the cloud [n, d], S its covariance, λ the eigenvalues of S."""

    slug: str
    group: Group
    name: str
    symbol: str
    range: str
    formula: str
    meaning: str
    pitfall: str
    citation: str
    higher_means: Literal["more isotropic", "less isotropic", "neither"]

    def ends(self, n: int, d: int) -> tuple[float, float] | None:
        """Return the ends of ``range`` for n points in d dimensions.

        None where the text is more than one interval, optionally with a remark after "]," or "];", or where that has
        an infinite end, a symbol other than n and d, or no length.
        """
        interval = INTERVAL.fullmatch(self.range)
        if interval is None:
            return None
        try:
            pair = ast.parse(f"({interval[1].replace('−', '-')})", mode="eval").body
            low, high = (_value(end, {"n": n, "d": d}) for end in getattr(pair, "elts", ()))
        except (ArithmeticError, LookupError, SyntaxError, TypeError, ValueError):
            return None
        return (low, high) if low < high else None


def _value(node: ast.expr, symbols: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.Name(id=name):
            return float(symbols[name])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, symbols)
        case ast.BinOp(left=left, op=op, right=right):
            return float(OPERATORS[type(op)](_value(left, symbols), _value(right, symbols)))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return float(FUNCTIONS[name](*(_value(argument, symbols) for argument in arguments)))
    raise ValueError(f"{ast.unparse(node)} is no number")
