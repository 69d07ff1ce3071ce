"""What the URL says of a table of means, and the files that it becomes."""

from typing import Annotated, Literal, NamedTuple
from urllib.parse import urlencode

from fastapi import Depends, Response
from fastapi.responses import JSONResponse

from app.results.tables.printed import MOST_DECIMALS, Style
from app.results.tables.summary import Shown, Summary
from app.results.tables.texts import MEDIA_TYPES, Kind, text_of
from app.routes.downloads import attachment

TableFile = Kind | Literal["json"]


class TableQuery(NamedTuple):
    """What the columns are, and how cells are printed."""

    shown: Shown
    style: Style

    def encoded(self) -> str:
        """The query string again; what is not said otherwise is left out."""
        return urlencode({name: value for name, value in self.pairs() if value})

    def pairs(self) -> list[tuple[str, str]]:
        """The same as names with values."""
        return [
            ("columns", "" if self.shown is Shown.PERFORMANCE else self.shown.value),
            ("decimals", "" if self.style.decimals is None else str(self.style.decimals)),
            ("bold", "" if self.style.bold else "0"),
        ]


def _query(columns: Shown = Shown.PERFORMANCE, decimals: str = "", bold: bool = True) -> TableQuery:
    known = decimals.isdecimal() and decimals.isascii() and int(decimals[:3]) <= MOST_DECIMALS
    return TableQuery(columns, Style(int(decimals) if known else None, bold))


TableDep = Annotated[TableQuery, Depends(_query)]


def table_file(summary: Summary, kind: TableFile, style: Style) -> Response:
    """A table to keep: as a paper prints it, or unrounded."""
    headers = attachment(f"isoscope-means.{kind}")
    if kind == "json":
        table = summary.table()
        return JSONResponse([dict(zip(table.columns, row, strict=True)) for row in table.rows], headers=headers)
    return Response(text_of(summary, kind, style), media_type=MEDIA_TYPES[kind], headers=headers)
