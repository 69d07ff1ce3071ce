"""A printed table in LaTeX with the rules of booktabs."""

import re
import unicodedata

from app.results.tables.printed import Printed, Value
from isoscope.core.formatting import one_line

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
    '"': "''",
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
    "–": r"\textendash{}",
    "…": r"\dots{}",
    "\u00a0": "~",
}
ESCAPED = re.compile("|".join(map(re.escape, COMMANDS)))
LIGATURE = re.compile(r"""-(?=-)|,(?=,)|'(?=['"])""")
"""The first of two characters of which TeX would make another one."""
ACCENTS = frozenset("\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0327")
LETTERS = frozenset("ßæœøåłÆŒØÅŁ‘’“”—§¶©")
"""What pdfLaTeX sets without a package, besides ASCII and letters with an accent."""
OTHER_ENGINES = "% Compile with XeLaTeX or LuaLaTeX: it has characters that pdfLaTeX does not know."
MISSING = "--"


def escaped(text: str) -> str:
    """A text of a user's that stays a text, its λ, ζ, ★, ± and minus in mathematics."""
    parted = LIGATURE.sub(lambda found: f"{found[0]}\0", one_line(text))
    return ESCAPED.sub(lambda found: COMMANDS[found[0]], parted).replace("\0", "{}")


def beyond_pdflatex(text: str) -> bool:
    """Whether something is left, once escaped, that takes another engine."""
    return not all(map(_known, escaped(text)))


def _known(character: str) -> bool:
    decomposed = unicodedata.normalize("NFD", character)
    base, accents = decomposed[0], decomposed[1:]
    return character in LETTERS or (base.isascii() and len(accents) < 2 and ACCENTS.issuperset(accents))


def latex(table: Printed) -> str:
    r"""A ``table`` to be pasted; its preamble needs ``\usepackage{booktabs}``."""
    columns = "l" * len(table.heads) + "r" * len(table.columns)
    texts = [table.caption, *table.heads, *table.columns, *(label for line in table.lines for label in line.labels)]
    lines = [
        r"% \usepackage{booktabs}",
        *([OTHER_ENGINES] if any(map(beyond_pdflatex, texts)) else []),
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
    number = rf"$\mathbf{{{text}}}$" if value.best else f"${text}$"
    return f"{number} ({value.size.replace('n', '$n$')})" if value.size else number
