"""Format a summary as LaTeX, Markdown or unrounded CSV."""

import re
import unicodedata
from typing import Literal

from app.results.tables.printed import PrintedTable, PrintedValue, PrintStyle, print_summary
from app.results.tables.summary import SummaryTable
from isoscope.core.formatting import one_line

LATEX_COMMANDS = {
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
    # At the start of a row, LaTeX would read these as options of the preceding line break.
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
LATEX_SPECIAL = re.compile("|".join(map(re.escape, LATEX_COMMANDS)))
LIGATURE = re.compile(r"""-(?=-)|,(?=,)|'(?=['"])""")
"""The first of two characters that TeX would join into a ligature."""
ACCENTS = frozenset("\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0327")
LETTERS = frozenset("ßæœøåłÆŒØÅŁ‘’“”—§¶©")
"""Characters that pdfLaTeX prints without a package, except ASCII and accented letters."""
ENGINE_COMMENT = "% Compile with XeLaTeX or LuaLaTeX: it has characters that pdfLaTeX does not know."
LATEX_MISSING = "--"


def escape_latex(text: str) -> str:
    """Escape a user's text; λ, ζ, ★, ± and minus become mathematics."""
    separated = LIGATURE.sub(lambda match: f"{match[0]}\0", one_line(text))
    return LATEX_SPECIAL.sub(lambda match: LATEX_COMMANDS[match[0]], separated).replace("\0", "{}")


def needs_other_engine(text: str) -> bool:
    """Return whether a text, once escaped, has characters that pdfLaTeX does not know."""
    for character in set(escape_latex(text)) - LETTERS:
        decomposed = unicodedata.normalize("NFD", character)
        base, accents = decomposed[0], decomposed[1:]
        if not base.isascii() or len(accents) > 1 or not ACCENTS.issuperset(accents):
            return True
    return False


def format_latex(table: PrintedTable) -> str:
    r"""Return a ``table`` environment; the preamble needs ``\usepackage{booktabs}``."""
    alignment = "l" * len(table.heads) + "r" * len(table.columns)
    texts = [table.caption, *table.heads, *table.columns, *(label for row in table.rows for label in row.labels)]
    lines = [
        r"% \usepackage{booktabs}",
        *([ENGINE_COMMENT] if any(map(needs_other_engine, texts)) else []),
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape_latex(table.caption)}}}",
        rf"  \begin{{tabular}}{{{alignment}}}",
        r"    \toprule",
        rf"    {' & '.join(map(escape_latex, (*table.heads, *table.columns)))} \\",
        r"    \midrule",
        *(
            rf"    {' & '.join([*map(escape_latex, row.labels), *map(_format_latex_cell, row.cells)])} \\"
            for row in table.rows
        ),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _format_latex_cell(value: PrintedValue | None) -> str:
    if value is None:
        return LATEX_MISSING
    text = value.mean + (rf" \pm {value.half_width}" if value.half_width is not None else "")
    number = rf"$\mathbf{{{text}}}$" if value.best else f"${text}$"
    return f"{number} ({value.size.replace('n', '$n$')})" if value.size else number


PUNCTUATION = re.compile(r"([!#$&*<>@\[\\\]^_`{|}~])")
"""ASCII punctuation that CommonMark escapes with a backslash, except what needs no escape in a table cell."""
GITHUB_LINKS = re.compile(r"(?<=@)(?=\w)|(?<=#)(?=\d)|(?<=:)(?=//)|(?<=\bwww)(?=\.)|(?<=:)(?=[\w+-]+:)", re.IGNORECASE)
"""Positions where GitHub makes mentions, references, links and emoji despite a backslash."""
EMPTY_COMMENT = "<!-- -->"  # splits what GitHub would link, and is not shown
MARKDOWN_MISSING = "–"


def escape_markdown(text: str) -> str:
    return EMPTY_COMMENT.join(PUNCTUATION.sub(r"\\\1", part) for part in GITHUB_LINKS.split(one_line(text)))


def format_markdown(table: PrintedTable) -> str:
    rows = [
        [*map(escape_markdown, (*table.heads, *table.columns))],
        [*(":--" for _ in table.heads), *("--:" for _ in table.columns)],
        *([*map(escape_markdown, row.labels), *map(_format_markdown_cell, row.cells)] for row in table.rows),
    ]
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    return f"{escape_markdown(table.caption)}\n\n" + "\n".join(lines) + "\n"


def _format_markdown_cell(value: PrintedValue | None) -> str:
    if value is None:
        return MARKDOWN_MISSING
    text = value.mean.replace("-", "−") + (f" ± {value.half_width}" if value.half_width is not None else "")
    number = f"**{text}**" if value.best else text
    return f"{number} ({value.size})" if value.size else number


TextFormat = Literal["tex", "md", "csv"]
MEDIA_TYPES = {"tex": "application/x-tex", "md": "text/markdown", "csv": "text/csv"}


def format_summary(summary: SummaryTable, kind: TextFormat, style: PrintStyle) -> str:
    if kind == "csv":
        return summary.table().csv()
    printed = print_summary(summary, style)
    return format_latex(printed) if kind == "tex" else format_markdown(printed)
