"""A summary as a text to keep: in LaTeX, in Markdown, or unrounded."""

import re
import unicodedata
from typing import Literal

from app.results.tables.printed import Printed, Style, Value, printed
from app.results.tables.summary import Summary
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
LATEX_MISSING = "--"


def escaped_latex(text: str) -> str:
    """A text of a user's that stays a text, its λ, ζ, ★, ± and minus in mathematics."""
    parted = LIGATURE.sub(lambda found: f"{found[0]}\0", one_line(text))
    return ESCAPED.sub(lambda found: COMMANDS[found[0]], parted).replace("\0", "{}")


def beyond_pdflatex(text: str) -> bool:
    """Whether something is left, once escaped, that takes another engine."""
    return not all(map(_known, escaped_latex(text)))


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
        rf"  \caption{{{escaped_latex(table.caption)}}}",
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        _latex_line([escaped_latex(one) for one in (*table.heads, *table.columns)]),
        r"    \midrule",
        *(_latex_line([*map(escaped_latex, line.labels), *map(_latex_cell, line.cells)]) for line in table.lines),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_line(cells: list[str]) -> str:
    return rf"    {' & '.join(cells)} \\"


def _latex_cell(value: Value | None) -> str:
    if value is None:
        return LATEX_MISSING
    text = value.mean + (rf" \pm {value.std}" if value.std is not None else "")
    number = rf"$\mathbf{{{text}}}$" if value.best else f"${text}$"
    return f"{number} ({value.size.replace('n', '$n$')})" if value.size else number


SPECIAL = re.compile(r"([!-/:-@\[-`{-~])")
"""ASCII punctuation, every character of which CommonMark lets a backslash escape."""
PLAIN = frozenset(".,:;()/'\"-+=%?")
"""Of it, what means nothing inside a cell."""
ALIVE = re.compile(r"(?<=@)(?=\w)|(?<=#)(?=\d)|(?<=:)(?=//)|(?<=\bwww)(?=\.)|(?<=:)(?=[\w+-]+:)", re.IGNORECASE)
"""Where GitHub makes a mention, a reference, a link or an emoji, which no backslash keeps it from."""
NOTHING = "<!-- -->"
MARKDOWN_MISSING = "–"


def escaped_markdown(text: str) -> str:
    """A text of a user's that stays a text."""
    return NOTHING.join(SPECIAL.sub(_one, part) for part in ALIVE.split(one_line(text)))


def _one(found: re.Match[str]) -> str:
    return found[1] if found[1] in PLAIN else rf"\{found[1]}"


def markdown(table: Printed) -> str:
    """Caption, then the table: groups to the left, numbers to the right."""
    rule = [*(":--" for _ in table.heads), *("--:" for _ in table.columns)]
    lines = [
        _markdown_line([escaped_markdown(one) for one in (*table.heads, *table.columns)]),
        _markdown_line(rule),
        *(
            _markdown_line([*map(escaped_markdown, line.labels), *map(_markdown_cell, line.cells)])
            for line in table.lines
        ),
    ]
    return f"{escaped_markdown(table.caption)}\n\n" + "\n".join(lines) + "\n"


def _markdown_line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(value: Value | None) -> str:
    if value is None:
        return MARKDOWN_MISSING
    text = value.mean.replace("-", "−") + (f" ± {value.std}" if value.std is not None else "")
    number = f"**{text}**" if value.best else text
    return f"{number} ({value.size})" if value.size else number


Kind = Literal["tex", "md", "csv"]
MEDIA_TYPES = {"tex": "application/x-tex", "md": "text/markdown", "csv": "text/csv"}


def text_of(summary: Summary, kind: Kind, style: Style) -> str:
    """LaTeX or Markdown in this style, or all digits of every cell as CSV."""
    if kind == "csv":
        return summary.table().csv()
    text = printed(summary, style)
    return latex(text) if kind == "tex" else markdown(text)
