"""A summary as a text to keep: as a paper prints it, or unrounded."""

from typing import Literal

from app.results.tables.latex import latex
from app.results.tables.markdown import markdown
from app.results.tables.printed import Style, printed
from app.results.tables.summary import Summary

Kind = Literal["tex", "md", "csv"]
MEDIA_TYPES = {"tex": "application/x-tex", "md": "text/markdown", "csv": "text/csv"}


def text_of(summary: Summary, kind: Kind, style: Style) -> str:
    """LaTeX or Markdown in this style, or all digits of every cell as CSV."""
    if kind == "csv":
        return summary.table().csv()
    text = printed(summary, style)
    return latex(text) if kind == "tex" else markdown(text)
