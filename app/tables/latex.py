"""A printed table in LaTeX with the rules of booktabs."""

import re

from app.services.names import one_line
from app.tables.printed import Printed, Value

COMMANDS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    # At the head of a row these would be read as options of the line break before it.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "λ": r"$\lambda$",
    "ζ": r"$\zeta$",
    "★": r"$^\star$",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "…": r"\dots{}",
    "\u00a0": "~",
}
ESCAPED = re.compile("|".join(map(re.escape, COMMANDS)))
MISSING = "--"


def escaped(text: str) -> str:
    """A text of a user's that stays a text, its λ, ζ, ★, ± and minus in mathematics."""
    return ESCAPED.sub(lambda found: COMMANDS[found[0]], one_line(text))


def latex(table: Printed) -> str:
    r"""A ``table`` to be pasted; its preamble needs ``\usepackage{booktabs}``."""
    columns = "l" * len(table.heads) + "r" * len(table.columns)
    lines = [
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escaped(table.caption)}}}",
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        _line([escaped(one) for one in (*table.heads, *table.columns)]),
        r"    \midrule",
        *(_line([*map(escaped, line.labels), *map(_cell, line.cells)]) for line in table.lines),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _line(cells: list[str]) -> str:
    return rf"    {' & '.join(cells)} \\"


def _cell(value: Value | None) -> str:
    if value is None:
        return MISSING
    text = value.mean + (rf" \pm {value.std}" if value.std is not None else "")
    return rf"$\mathbf{{{text}}}$" if value.best else f"${text}$"
